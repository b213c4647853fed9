"""Checks of the engine's part of a config, before any process starts and without importing an engine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rllib_gigpo.inference import vllm_options


def check_engine(config: Any) -> Iterator[str]:
    """Yields a message for each value of a GroupPolicyConfig that its engine cannot serve."""
    if config.engine != "vllm":
        if config.engine_options:
            yield (
                f"engine_options={config.engine_options!r} does nothing with engine={config.engine!r}; they are of "
                "generation(engine='vllm')."
            )
        if config.engine_sleep_level is not None:
            yield f"engine_sleep_level={config.engine_sleep_level!r} does nothing with engine={config.engine!r}."
        return
    yield from _check_sleep(config)
    yield from vllm_options.check_installed()
    if problems := list(vllm_options.check_options(config.engine_options)):
        yield from problems
        return
    yield from vllm_options.check_placement(config.engine_options, config.num_gpus_per_env_runner)
    on_cpu = not config.num_gpus_per_env_runner
    yield from vllm_options.check_model(config.model_path, lora_rank=config.lora_rank, on_cpu=on_cpu)


def _check_sleep(config: Any) -> Iterator[str]:
    level = config.engine_sleep_level
    if level not in (None, 1, 2):
        yield f"engine_sleep_level={level!r} must be 1 or 2, or None for an engine that keeps its memory."
    elif level is not None and not config.num_gpus_per_env_runner:
        yield f"engine_sleep_level={level} gives a GPU's memory back, but num_gpus_per_env_runner=0: set it to None."
    elif level == 2 and config.lora_rank is not None:
        yield (
            "engine_sleep_level=2 drops the model's weights, and with lora_rank only the adapter's are delivered "
            "again: set generation(engine_sleep_level=1)."
        )
