"""Checks of a config's environment workers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rllib_gigpo.env_runners.worker_pool import check_sendable
from rllib_gigpo.environments import environment_creator

_LIMITS = {"env_step_timeout_s": 300.0, "env_worker_memory_limit_mb": None, "env_worker_max_episodes": None}


def check_env_workers(config: Any) -> Iterator[str]:
    """Yields a message for each value that cannot work, or does nothing; the environment itself must be right."""
    for key in ("env_step_timeout_s", "rollout_stall_timeout_s", "env_worker_memory_limit_mb"):
        value = getattr(config, key)
        if value is not None and not value > 0:
            yield f"{key}={value!r} must be greater than 0, or None for no limit."
    if config.env_workers == 0:
        for key, default in _LIMITS.items():
            if getattr(config, key) != default:
                yield (
                    f"{key}={getattr(config, key)!r} does nothing with env_workers=0, where environments run in the "
                    "env runner itself: set env_runners(env_workers=…) to at least 1."
                )
        return
    step, stall = config.env_step_timeout_s, config.rollout_stall_timeout_s
    if stall is not None and (step is None or stall <= step):
        yield (
            f"rollout_stall_timeout_s={stall} would end an env runner before env_step_timeout_s={step} ends the "
            "environment that hangs: set env_runners(rollout_stall_timeout_s=…) to more, or None."
        )
    if config.env_workers > config.num_envs_per_env_runner:
        yield (
            f"env_workers={config.env_workers} is more than num_envs_per_env_runner={config.num_envs_per_env_runner}: "
            "some would never have an environment. Lower env_runners(env_workers=…)."
        )
    try:
        check_sendable(environment_creator(config.env), config.env_config)
    except ValueError as problem:
        yield str(problem)
