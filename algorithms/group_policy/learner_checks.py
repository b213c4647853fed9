"""Checks of what a config says about its learners."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def check_learners(config: Any) -> Iterator[str]:
    """Yields a message for each value of `learners(…)` that cannot work, or does nothing."""
    yield from _check_sharding(config)
    timeout_s = config.learner_stall_timeout_s
    if timeout_s is not None and not timeout_s > 0:
        yield f"learner_stall_timeout_s={timeout_s!r} must be greater than 0, or None for no limit."
    if not config.offload_reference:
        return
    from rllib_gigpo.learners.reference_policy import is_reference_needed  # which brings torch

    modules = config.policies if config.is_multi_agent else ()
    coefficients = [config.kl_coeff, *(config.get_config_for_module(id_).kl_coeff for id_ in modules)]
    if not any(map(is_reference_needed, coefficients)):
        yield (
            "offload_reference=True does nothing without a reference policy: set training(kl_coeff=…) to other than 0, "
            "or leave it out."
        )
    elif config.lora_rank is not None:
        yield (
            f"offload_reference=True does nothing with lora_rank={config.lora_rank}: the reference policy is the base "
            "model, which is there anyway. Leave it out."
        )


def _check_sharding(config: Any) -> Iterator[str]:
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
