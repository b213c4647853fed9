"""Checks of what a config says about sharded learners."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def check_sharding(config: Any) -> Iterator[str]:
    """Yields a message where models cannot be spread over the learners as `learners(sharding=…)` says."""
    if config.sharding is None:
        if config.mixed_precision:
            yield (
                "mixed_precision=True needs sharded models: set learners(sharding='fsdp'), or train in "
                "language_model(model_dtype='bfloat16')."
            )
        return
    if config.num_learners < 2:
        yield (
            f"sharding={config.sharding!r} spreads models over learners, and num_learners={config.num_learners}: set "
            "learners(num_learners=…) to at least 2, or sharding=None."
        )
    if hasattr(config, "critic_lr"):
        yield f"sharding={config.sharding!r} does not apply to {type(config).__name__}: critics are not sharded."
    if len(config.policies) > 1 and config.lora_rank is not None:
        yield (
            f"sharding={config.sharding!r} does not apply to several adapters, which share one base model: leave out "
            "lora_rank, or set sharding=None."
        )
