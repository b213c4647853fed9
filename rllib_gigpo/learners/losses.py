"""Policy losses over packed responses: pure functions of tensors, in sums, so that micro-batches add up.

Responses are packed back to back, never padded. K is the number of rows (responses), M that of their tokens, V the size
of the vocabulary. A loss is a sum over the rows given; the caller divides it by `loss_denominator` of the *whole*
mini-batch. Rows that take no part are left out by the caller, and still count in that denominator.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

Ratio = Literal["token", "sequence"]
Aggregation = Literal[
    "token-mean",  # Σ over tokens / tokens: long responses weigh more
    "sequence-mean-token-mean",  # every response weighs the same (GRPO, GSPO)
    "sequence-mean-token-sum",
    "sequence-mean-token-sum-norm",  # Dr. GRPO: token sums / (rows · max_response_tokens), a constant per row
]
KLEstimator = Literal["k1", "k2", "k3"]

# Logits per chunk. On a CPU one of 4 MiB stays in the cache, on a GPU each takes some launches of kernels.
_ENTROPY_CHUNK_ON_CPU, _ENTROPY_CHUNK = 2**20, 2**24


class PolicyLoss(NamedTuple):
    """Scalars, of which `loss_sum` carries the gradient. All but `ratio_max` add up over micro-batches."""

    loss_sum: Tensor  # to be divided by `loss_denominator`
    tokens: Tensor  # int64, M
    clipped_low: Tensor  # int64, tokens with A < 0 whose ratio is below 1 − clip_low: no gradient
    clipped_high: Tensor  # int64, tokens with A > 0 whose ratio is above 1 + clip_high: no gradient
    dual_clipped: Tensor  # int64, tokens with A < 0 whose ratio is above dual_clip: no gradient
    ratio_sum: Tensor  # over tokens
    ratio_max: Tensor  # over tokens; 0 without tokens
    approx_kl_sum: Tensor  # over tokens, k3 estimate of KL(old ‖ new), each >= 0


def policy_loss(
    logp: Tensor,
    old_logp: Tensor,
    advantages: Tensor,
    response_lengths: Tensor,
    *,
    clip_low: float,
    clip_high: float,
    ratio: Ratio,
    aggregation: Aggregation,
    dual_clip: float | None = None,
    importance_weights: Tensor | None = None,
    token_advantages: Tensor | None = None,
) -> PolicyLoss:
    """Clipped surrogate −min(ρA, clip(ρ, 1 − clip_low, 1 + clip_high)A), summed as `aggregation` says.

    Args:
        logp: float[M], of the policy being trained.
        old_logp: float[M], of the policy before the first optimizer step on these rows; detached here.
        advantages: float[K], shared by all tokens of a row.
        response_lengths: int64[K], at least 1 each, with sum M.
        clip_low, clip_high: At least 0. They belong to the ratio: a sequence ratio moves far less than a token's.
        ratio: ρ. "token": exp(logp − old_logp) of each token (PPO, GRPO). "sequence": exp of the mean of
            logp − old_logp over the row, one per response (GSPO, GAGPO); every token counts it, so that the
            aggregations mean the same for both.
        aggregation: See `Aggregation`.
        dual_clip: c > 1: where A < 0, a loss of at most −cA (arXiv 1912.09729). None is off.
        importance_weights: float[M], multiplied into each token's loss; detached here. `truncated_importance_weights`
            makes them.
        token_advantages: float[M], in place of `advantages`; detached here.

    Returns:
        NaN in `loss_sum` where a log-probability is not finite: clipping would make an ordinary number of it.

    Raises:
        ValueError: An option is out of its range, or shapes do not fit together.
    """
    _check_options(clip_low, clip_high, ratio, aggregation, dual_clip)
    row = _row_of_token(logp, response_lengths)
    _check_shape("old_logp", old_logp, logp)
    _check_shape("advantages", advantages, response_lengths)
    if importance_weights is not None:
        _check_shape("importance_weights", importance_weights, logp)
    if token_advantages is not None:
        _check_shape("token_advantages", token_advantages, logp)

    log_ratio = logp - old_logp.detach()
    if ratio == "sequence" and len(row):
        row_mean = torch.segment_reduce(log_ratio, "mean", lengths=response_lengths)
        probability_ratio = row_mean[row].exp()
    else:
        probability_ratio = log_ratio.exp()
    advantage = (advantages[row] if token_advantages is None else token_advantages).detach()

    clipped_ratio = probability_ratio.clamp(1 - clip_low, 1 + clip_high)
    losses = torch.maximum(-advantage * probability_ratio, -advantage * clipped_ratio)
    if dual_clip is not None:
        losses = torch.where(advantage < 0, torch.minimum(losses, -advantage * dual_clip), losses)
    if importance_weights is not None:
        losses = losses * importance_weights.detach()
    # x − x is 0 where x is finite and NaN elsewhere.
    losses = losses + (log_ratio - log_ratio).detach()
    loss_sum = aggregated_sum(losses, response_lengths, aggregation)

    with torch.no_grad():
        too_high = probability_ratio > (torch.inf if dual_clip is None else dual_clip)
        return PolicyLoss(
            loss_sum=loss_sum,
            tokens=torch.tensor(len(row), device=logp.device),
            clipped_low=((advantage < 0) & (probability_ratio < 1 - clip_low)).sum(),
            clipped_high=((advantage > 0) & (probability_ratio > 1 + clip_high)).sum(),
            dual_clipped=((advantage < 0) & too_high).sum(),
            ratio_sum=probability_ratio.sum(),
            ratio_max=probability_ratio.max() if len(row) else probability_ratio.sum(),
            approx_kl_sum=(torch.expm1(log_ratio) - log_ratio).sum(),
        )


class ValueLoss(NamedTuple):
    """Scalars that add up over micro-batches, of which `loss_sum` carries the gradient."""

    loss_sum: Tensor  # over values
    clipped: Tensor  # int64, values that clipping leaves without gradient


def value_loss(values: Tensor, targets: Tensor, old_values: Tensor, *, value_clip: float | None) -> ValueLoss:
    """Σ max((v − R)², (clip(v, v_old ± value_clip) − R)²), PPO's clipped value loss.

    Args:
        values: float[V], of the critic being trained.
        targets: float[V], R; detached here.
        old_values: float[V], of the critic before the first optimizer step on these rows; detached here.
        value_clip: How far an update may move a value, in units of the return. None is off: Σ (v − R)².

    Raises:
        ValueError: `value_clip` is not positive, or the shapes differ.
    """
    _check_shape("targets", targets, values)
    _check_shape("old_values", old_values, values)
    targets, old_values = targets.detach(), old_values.detach()
    errors = (values - targets).square()
    if value_clip is None:
        return ValueLoss(errors.sum(), torch.zeros((), dtype=torch.int64, device=values.device))
    if not value_clip > 0:
        raise ValueError(f"value_clip is {value_clip}; it must be greater than 0, or None")
    clipped_errors = (values.clamp(old_values - value_clip, old_values + value_clip) - targets).square()
    return ValueLoss(torch.maximum(errors, clipped_errors).sum(), (clipped_errors > errors).sum())


def kl_penalty(logp: Tensor, reference_logp: Tensor, estimator: KLEstimator) -> Tensor:
    """Estimates of KL(π ‖ π_ref) per token, from tokens that π sampled: float[M], with gradients.

    With x = logp − reference_logp (http://joschu.net/blog/kl-approx.html):
        "k1": x, unbiased. Its own gradient has expectation 0 and would pull nowhere, so it gets that of k2.
        "k2": x² / 2, biased, but its gradient x·∇logp is an unbiased one of the KL.
        "k3": exp(−x) − 1 + x, unbiased and never negative; its gradient is that of KL(π_ref ‖ π). In use in GRPO and
            GiGPO.

    Args:
        logp: float[M], of the policy being trained.
        reference_logp: float[M]; detached here.
        estimator: See above.

    Raises:
        ValueError: An unknown estimator, or the shapes differ.
    """
    _check_choice("kl_estimator", estimator, get_args(KLEstimator))
    _check_shape("reference_logp", reference_logp, logp)
    log_ratio = logp - reference_logp.detach()
    if estimator == "k3":
        return torch.expm1(-log_ratio) + log_ratio
    squared = 0.5 * log_ratio.square()
    if estimator == "k2":
        return squared
    # The value of the first term; the rest is 0 and brings the gradient.
    return log_ratio.detach() + (squared - squared.detach())


def aggregated_sum(token_values: Tensor, response_lengths: Tensor, aggregation: Aggregation) -> Tensor:
    """Numerator of `aggregation`, a scalar: any per-token term (surrogate, KL, entropy) sums in the same way.

    Args:
        token_values: float[M].
        response_lengths: int64[K], at least 1 each, with sum M.
    """
    if aggregation != "sequence-mean-token-mean":
        return token_values.sum()
    row = _row_of_token(token_values, response_lengths)
    return (token_values / response_lengths[row]).sum()


def loss_denominator(
    response_lengths: Tensor, aggregation: Aggregation, max_response_tokens: int | None = None
) -> Tensor:
    """What the sum over a mini-batch is divided by: an int64 scalar, which learners may all-reduce; 0 without rows.

    Args:
        response_lengths: int64[K], of all rows of the mini-batch, those that take no part in the loss included.
        aggregation: "token-mean": Σ lengths. "sequence-mean-token-mean", "sequence-mean-token-sum": K.
            "sequence-mean-token-sum-norm": K · max_response_tokens, constant per row as in Dr. GRPO (arXiv 2503.20783).
            (verl's "seq-mean-token-sum-norm" divides by the padded length of the batch at hand, and not by K.)
        max_response_tokens: The sampling limit; needed by "sequence-mean-token-sum-norm".

    Raises:
        ValueError: An unknown aggregation, or `max_response_tokens` is needed and below 1.
    """
    _check_choice("loss_aggregation", aggregation, get_args(Aggregation))
    if aggregation == "token-mean":
        return response_lengths.sum()
    rows = torch.tensor(len(response_lengths), device=response_lengths.device)
    if aggregation != "sequence-mean-token-sum-norm":
        return rows
    if max_response_tokens is None or max_response_tokens < 1:
        raise ValueError(f"max_response_tokens is {max_response_tokens}; {aggregation} needs it to be at least 1")
    return rows * max_response_tokens


def truncated_importance_weights(old_logp: Tensor, rollout_logp: Tensor, cap: float) -> Tensor:
    """min(π_old / π_rollout, cap) per token, float[M], detached: corrects what the sampler computes differently.

    Args:
        old_logp: float[M], the learner's log-probabilities before the first optimizer step on these rows.
        rollout_logp: float[M], the sampler's.
        cap: Greater than 0.

    Returns:
        NaN where a log-probability is not finite: the cap would make an ordinary number of it.

    Raises:
        ValueError: `cap` is not positive, or the shapes differ.
    """
    if not cap > 0:
        raise ValueError(f"cap is {cap}; it must be greater than 0")
    _check_shape("rollout_logp", rollout_logp, old_logp)
    log_ratio = (old_logp - rollout_logp).detach()
    return log_ratio.exp().clamp(max=cap) + (log_ratio - log_ratio)


def token_log_probs(logits: Tensor, ids: Tensor, temperature: float) -> Tensor:
    """Log-probability of each id under softmax(logits / temperature), in float32: [M].

    Args:
        logits: float[M, V], at the positions that predict the ids.
        ids: int64[M].
        temperature: Greater than 0.

    Raises:
        ValueError: `temperature` is not positive, or the shapes do not fit.
    """
    _check_shape("ids", ids, logits[:, 0])
    log_probs = torch.log_softmax(_tempered(logits, temperature), dim=-1)
    return log_probs.gather(-1, ids.unsqueeze(-1)).squeeze(-1)


def token_entropy(logits: Tensor, temperature: float = 1.0) -> Tensor:
    """Entropy in nats of softmax(logits / temperature), in float32: [M].

    Args:
        logits: float[M, V]; worked through in chunks of rows: without gradients no second tensor of this size exists.
        temperature: Greater than 0.

    Raises:
        ValueError: `temperature` is not positive.
    """
    num_logits = _ENTROPY_CHUNK_ON_CPU if logits.device.type == "cpu" else _ENTROPY_CHUNK
    rows_per_chunk = max(1, num_logits // logits.shape[-1])
    return torch.cat([_entropy(_tempered(chunk, temperature)) for chunk in logits.split(rows_per_chunk)])


def _entropy(logits: Tensor) -> Tensor:
    log_probs = torch.log_softmax(logits, dim=-1)
    # `torch.special.entr` of the probabilities takes two and a half times as long on a CPU. The bound is for a logit of
    # −inf, a forbidden token: 0 · −inf would be NaN.
    return -torch.linalg.vecdot(log_probs.exp(), log_probs.clamp_min(torch.finfo(log_probs.dtype).min))


def _tempered(logits: Tensor, temperature: float) -> Tensor:
    if not temperature > 0:
        raise ValueError(f"temperature is {temperature}; it must be greater than 0")
    # Division by 1 would cost a copy of the largest tensor there is.
    return logits.float() if temperature == 1 else logits.float() / temperature


def _row_of_token(token_values: Tensor, response_lengths: Tensor) -> Tensor:
    """int64[M], the row of each token of `token_values` ([M])."""
    rows = torch.arange(len(response_lengths), device=response_lengths.device)
    row = rows.repeat_interleave(response_lengths)
    if token_values.shape != row.shape:
        raise ValueError(f"response_lengths sum to {len(row)}, but there are {tuple(token_values.shape)} token values")
    return row


def _check_shape(name: str, values: Tensor, like: Tensor) -> None:
    if values.shape != like.shape:
        raise ValueError(f"{name} has shape {tuple(values.shape)}; it must be {tuple(like.shape)}")


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name} is {value!r}; it must be one of {choices}")


def _check_options(clip_low: float, clip_high: float, ratio: str, aggregation: str, dual_clip: float | None) -> None:
    _check_choice("ratio", ratio, get_args(Ratio))
    _check_choice("loss_aggregation", aggregation, get_args(Aggregation))
    for name, value in (("clip_low", clip_low), ("clip_high", clip_high)):
        if not value >= 0:
            raise ValueError(f"{name} is {value}; it must be at least 0")
    if dual_clip is not None and not dual_clip > 1:
        raise ValueError(f"dual_clip is {dual_clip}; it must be greater than 1, or None")
