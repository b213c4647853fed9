"""Draws one token per row from logits by inverse CDF (temperature, top-k, top-p), with the log-prob of the draw."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from rllib_gigpo.inference.protocol import SamplingParams


def uniform_stream(seed: int, count: int) -> np.ndarray:
    """The uniforms that sample one response, one a token; a longer stream of the same seed starts with the shorter one.

    They come from a counter-based generator on the CPU, so they depend on neither the device nor the other rows.

    Args:
        seed: In [0, 2**64).
        count: How many.

    Returns:
        float64[count] in [0, 1).
    """
    return np.random.Generator(np.random.Philox(key=seed)).random(count)


def draw_tokens(
    logits: torch.Tensor, uniforms: torch.Tensor, params: Sequence[SamplingParams]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Draws a token for every row, each row by its own sampling parameters.

    Truncation is applied in the usual order: temperature, then top-k, then top-p of what top-k left.

    Args:
        logits: float[B, V] of any precision; a logit of -inf is never drawn.
        uniforms: float64[B] in [0, 1), on the device of the logits. Greedy rows do not use theirs.
        params: B parameters; of them `temperature`, `top_k` and `top_p` are used.

    Returns:
        Token ids int64[B] and log-probs float32[B], of the truncated and renormalised distribution that was drawn from;
        with temperature 0 of the untempered one. A log-prob is NaN where the row's logits define no distribution.
    """
    logits = logits.float()
    groups: dict[tuple[float, int, float], list[int]] = {}
    for row, one in enumerate(params):
        groups.setdefault((one.temperature, one.top_k, one.top_p), []).append(row)
    if len(groups) == 1:
        return _draw_alike(logits, uniforms, *next(iter(groups)))

    ids = torch.empty(len(params), dtype=torch.int64, device=logits.device)
    logp = torch.empty(len(params), dtype=torch.float32, device=logits.device)
    for (temperature, top_k, top_p), rows in groups.items():
        index = torch.tensor(rows, device=logits.device)
        ids[index], logp[index] = _draw_alike(logits[index], uniforms[index], temperature, top_k, top_p)
    return ids, logp


def _draw_alike(
    logits: torch.Tensor, uniforms: torch.Tensor, temperature: float, top_k: int, top_p: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """`draw_tokens` for rows of equal parameters: float32[B, V] and float64[B] to int64[B] and float32[B]."""
    if temperature == 0:
        ids = logits.argmax(dim=-1)
        return ids, _gather(logits.log_softmax(dim=-1), ids)

    candidates, token_ids = _most_likely(logits / temperature, top_k, top_p)
    logp = candidates.log_softmax(dim=-1)
    picks = _inverse_cdf(logp, uniforms)
    ids = picks if token_ids is None else _gather(token_ids, picks)
    return ids, _gather(logp, picks)


def _most_likely(scaled: torch.Tensor, top_k: int, top_p: float) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The tokens that top-k and top-p leave.

    Args:
        scaled: float32[B, V], logits divided by the temperature.

    Returns:
        Logits float32[B, C] of the candidates, -inf where top-p took one out, and their token ids int64[B, C]; None for
        the ids where candidates are the whole vocabulary in its own order.
    """
    cuts_k = 0 < top_k < scaled.shape[-1]
    if not cuts_k and top_p == 1:
        return scaled, None

    if cuts_k:
        candidates, token_ids = scaled.topk(top_k, dim=-1)
    else:
        # Stable: which of two equal logits the nucleus holds must not depend on the sorting algorithm.
        candidates, token_ids = scaled.sort(dim=-1, descending=True, stable=True)
    if top_p < 1:
        probs = candidates.softmax(dim=-1).double()
        mass_before = probs.cumsum(dim=-1) - probs
        outside = mass_before >= top_p
        outside[:, 0] = False
        candidates = candidates.masked_fill(outside, float("-inf"))
    return candidates, token_ids


def _inverse_cdf(logp: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
    """The first position at which the cumulated probability exceeds the uniform number.

    Args:
        logp: float32[B, C], normalised log-probs.
        uniforms: float64[B] in [0, 1).

    Returns:
        int64[B], positions of non-zero probability.
    """
    probs = logp.exp()
    # float64: a float32 sum over a large vocabulary is off by more than a rare token's probability.
    cdf = probs.double().cumsum(dim=-1)
    # The sum may end beside 1. Scaling by it, and staying under it, keeps the pick within the tokens that can be drawn.
    total = cdf[:, -1]
    target = torch.minimum(uniforms * total, torch.nextafter(total, torch.zeros_like(total)))
    picks = torch.searchsorted(cdf, target[:, None], right=True)[:, 0].clamp(max=logp.shape[-1] - 1)
    # A parallel prefix sum (GPU) may rise by rounding at a token of probability 0.
    return torch.where(_gather(probs, picks) > 0, picks, probs.argmax(dim=-1))


def _gather(values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """values[b, index[b]] for each row: [B, C] and int64[B] to [B]."""
    return values.gather(-1, index[:, None])[:, 0]
