"""Supervised warm start: teaches a model to imitate responses, deterministically."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch
from torch.nn import functional as F
from transformers import PreTrainedModel

BATCH_ROWS = 32
WARM_UP_STEPS = 50
FINAL_LEARNING_RATE_SHARE = 0.05
_IGNORED = -100  # what cross_entropy skips


class Pixels(NamedTuple):
    """What a vision tower reads of one image.

    Attributes:
        pixel_values: float32[patches, numbers of a patch].
        grid_thw: int64[3], patches in time, height and width.
    """

    pixel_values: np.ndarray
    grid_thw: np.ndarray


def warm_start(
    model: PreTrainedModel,
    prompts: Sequence[np.ndarray],
    responses: Sequence[np.ndarray],
    *,
    steps: int,
    learning_rate: float,
    seed: int,
    images: Sequence[Pixels] | None = None,
) -> list[float]:
    """Trains `model` in place to give response i to prompt i; the loss counts response tokens only.

    Runs on one thread, so that the order of every sum, and with it every bit of the result, is the same each time on
    a machine.

    Args:
        model: On the CPU.
        prompts: int32[P_i] for each of the n rows.
        responses: int32[R_i] for each of the n rows, end-of-sequence token included.
        steps: Optimizer steps, each on `BATCH_ROWS` rows drawn with replacement.
        learning_rate: Its peak; it rises over `WARM_UP_STEPS` steps and falls along a cosine to a twentieth.
        seed: Of the draw of rows.
        images: One for each of the n prompts, which hold a placeholder per token of theirs; None for texts alone.

    Returns:
        The mean negative log-likelihood per response token, in nats, of each step's batch.

    Raises:
        ValueError: There are no rows, or not one response per prompt.
    """
    if len(prompts) == 0 or len(prompts) != len(responses):
        raise ValueError(f"got {len(prompts)} prompts and {len(responses)} responses; need as many, and at least one")
    rng = np.random.default_rng(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, betas=(0.9, 0.98), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _learning_rate_share(step, steps))
    losses = []
    model.train()
    with one_thread():
        for _ in range(steps):
            chosen = rng.integers(len(prompts), size=BATCH_ROWS)
            shown = [] if images is None else [images[i] for i in chosen]
            loss = _loss(model, [prompts[i] for i in chosen], [responses[i] for i in chosen], shown)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            losses.append(float(loss.detach()))
    model.eval()
    return losses


def _learning_rate_share(step: int, steps: int) -> float:
    cosine = 0.5 * (1 + math.cos(math.pi * step / steps))
    decayed = FINAL_LEARNING_RATE_SHARE + (1 - FINAL_LEARNING_RATE_SHARE) * cosine
    return decayed * min(1.0, (step + 1) / WARM_UP_STEPS)


def _loss(
    model: PreTrainedModel, prompts: Sequence[np.ndarray], responses: Sequence[np.ndarray], images: Sequence[Pixels]
) -> torch.Tensor:
    """Mean negative log-likelihood of all response tokens of the batch, a scalar in nats."""
    rows = [np.concatenate(pair) for pair in zip(prompts, responses, strict=True)]
    ids = torch.zeros(len(rows), max(map(len, rows)), dtype=torch.long)
    labels = torch.full_like(ids, _IGNORED)
    attended = torch.zeros_like(ids)
    for i, (row, prompt) in enumerate(zip(rows, prompts, strict=True)):
        ids[i, : len(row)] = torch.from_numpy(row)
        labels[i, len(prompt) : len(row)] = ids[i, len(prompt) : len(row)]
        attended[i, : len(row)] = 1
    vision = _vision_inputs(images, ids == model.config.image_token_id) if images else {}
    logits = model(input_ids=ids, attention_mask=attended, use_cache=False, **vision).logits
    # The logits at a position tell the next token.
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), ignore_index=_IGNORED)


def _vision_inputs(images: Sequence[Pixels], is_placeholder: torch.Tensor) -> dict[str, torch.Tensor]:
    """What a model of the Qwen-VL family takes beside the ids; `is_placeholder` is bool[B, L]."""
    return {
        "pixel_values": torch.from_numpy(np.concatenate([image.pixel_values for image in images])),
        "image_grid_thw": torch.from_numpy(np.stack([image.grid_thw for image in images])),
        "mm_token_type_ids": is_placeholder.int(),
    }


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch computes on one thread, so that the order of every sum is the same each time."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
