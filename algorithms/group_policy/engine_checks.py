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
        return
    yield from vllm_options.check_installed()
    if problems := list(vllm_options.check_options(config.engine_options)):
        yield from problems
        return
    yield from vllm_options.check_placement(config.engine_options, config.num_gpus_per_env_runner)
    on_cpu = not config.num_gpus_per_env_runner
    yield from vllm_options.check_model(config.model_path, lora_rank=config.lora_rank, on_cpu=on_cpu)
