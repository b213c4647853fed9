"""Supervised warm start: teaches a model to imitate responses, deterministically."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional as F
from transformers import PreTrainedModel

BATCH_ROWS = 32
WARM_UP_STEPS = 50
FINAL_LEARNING_RATE_SHARE = 0.05
_IGNORED = -100  # what cross_entropy skips


@dataclass(frozen=True)
class Stage:
    """One run of the optimizer over its own demonstrations.

    Attributes:
        prompts: int32[P_i] for each of the n rows.
        responses: int32[R_i] for each of the n rows, end-of-sequence token included.
        steps: Optimizer steps, of `BATCH_ROWS` rows drawn with replacement.
        learning_rate: Peak; it rises over `WARM_UP_STEPS` steps and falls along a cosine to a twentieth.
    """

    prompts: Sequence[np.ndarray]
    responses: Sequence[np.ndarray]
    steps: int
    learning_rate: float


def warm_start(model: PreTrainedModel, stages: Sequence[Stage], *, seed: int) -> list[float]:
    """Trains `model` in place on the stages, one after the other; the loss counts response tokens only.

    Runs on one thread, so that the order of every sum, and with it every bit of the result, is the same each time on
    a machine.

    Returns:
        The mean negative log-likelihood per response token, in nats, of each step's batch.

    Raises:
        ValueError: A stage has no rows, or not one response per prompt.
    """
    rng = np.random.default_rng(seed)
    with _one_thread():
        model.train()
        losses = [loss for stage in stages for loss in _run(model, stage, rng)]
        model.eval()
    return losses


def _run(model: PreTrainedModel, stage: Stage, rng: np.random.Generator) -> Iterator[float]:
    rows = len(stage.prompts)
    if rows == 0 or rows != len(stage.responses):
        raise ValueError(
            f"a stage has {rows} prompts and {len(stage.responses)} responses; it needs as many, at least one"
        )
    optimizer = torch.optim.AdamW(model.parameters(), lr=stage.learning_rate, betas=(0.9, 0.98), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _learning_rate_share(step, stage.steps))
    for _ in range(stage.steps):
        chosen = rng.integers(rows, size=BATCH_ROWS)
        loss = _loss(model, [stage.prompts[i] for i in chosen], [stage.responses[i] for i in chosen])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        yield float(loss.detach())


def _learning_rate_share(step: int, steps: int) -> float:
    cosine = 0.5 * (1 + math.cos(math.pi * step / steps))
    decayed = FINAL_LEARNING_RATE_SHARE + (1 - FINAL_LEARNING_RATE_SHARE) * cosine
    return decayed * min(1.0, (step + 1) / WARM_UP_STEPS)


def _loss(model: PreTrainedModel, prompts: Sequence[np.ndarray], responses: Sequence[np.ndarray]) -> torch.Tensor:
    """Mean negative log-likelihood of all response tokens of the batch, a scalar in nats."""
    rows = [np.concatenate(pair) for pair in zip(prompts, responses, strict=True)]
    ids = torch.zeros(len(rows), max(map(len, rows)), dtype=torch.long)
    labels = torch.full_like(ids, _IGNORED)
    attended = torch.zeros_like(ids)
    for i, (row, prompt) in enumerate(zip(rows, prompts, strict=True)):
        ids[i, : len(row)] = torch.from_numpy(row)
        labels[i, len(prompt) : len(row)] = ids[i, len(prompt) : len(row)]
        attended[i, : len(row)] = 1
    logits = model(input_ids=ids, attention_mask=attended, use_cache=False).logits
    # The logits at a position tell the next token.
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), ignore_index=_IGNORED)


@contextmanager
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
