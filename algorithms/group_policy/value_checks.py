"""Checks of single values of a group-relative algorithm's config: their types, and the ranges of RLlib's own keys.

They come before every comparison, so that a text where a number belongs is named and never a TypeError from elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from numbers import Integral, Real
from typing import Any

from ray._common.deprecation import DEPRECATED_VALUE
from ray.rllib.utils.schedules.scheduler import Scheduler

# Keys that only some of the algorithms have are skipped in the others.
_NUMBERS = (
    "gamma",
    "clip_low",
    "clip_high",
    "advantage_std_floor",
    "invalid_action_penalty",
    "entropy_coeff",
    "weight_decay",
    "temperature",
    "top_p",
    "step_advantage_weight",
    "trajectory_advantage_weight",
    "lambda_",
    "value_loss_coeff",
    "overlong_penalty",
)
_NUMBERS_OR_NONE = (
    "dual_clip",
    "importance_weight_cap",
    "lora_alpha",
    "similarity_threshold",
    "image_tolerance",
    "value_clip",
    "env_step_timeout_s",
    "rollout_stall_timeout_s",
    "learner_stall_timeout_s",
    "env_worker_memory_limit_mb",
    "sampler_gap_warning",
    "sampler_gap_limit",
    "min_entropy",
    "max_length_growth",
    "min_valid_action_ratio",
    "max_kl",
)
_INTEGERS = {
    "group_size": 1,
    "groups_per_iteration": 1,
    "num_minibatches": 1,
    "num_epochs": 1,
    "max_sampling_rounds": 1,
    "micro_batch_tokens": 1,
    "max_prompt_tokens": 1,
    "max_response_tokens": 1,
    "num_envs_per_env_runner": 1,
    "evaluation_duration": 1,
    "top_k": 0,
    "num_env_runners": 0,
    "env_workers": 0,
    "max_weight_lag": 0,
    "recorded_groups": 0,
    "evaluation_num_env_runners": 0,
    "num_learners": 0,
    "num_aggregator_actors_per_learner": 0,
}
_INTEGERS_OR_NONE = {
    "overlong_penalty_buffer": 0,
    "env_worker_max_episodes": 1,
    "max_trajectory_steps": 1,
    "max_trajectory_tokens": 1,
    "max_non_finite_steps": 1,
}
_TRUE_OR_FALSE = (
    "dynamic_sampling",
    "group_baseline",
    "bootstrap_truncated",
    "freeze_vision_tower",
    "gradient_checkpointing",
    "mixed_precision",
    "offload_reference",
    "share_prefixes",
    "torch_compile_learner",
)
_RESOURCES = (
    "num_cpus_for_main_process",
    "num_cpus_per_env_runner",
    "num_cpus_per_learner",
    "num_gpus",
    "num_gpus_per_env_runner",
    "num_gpus_per_learner",
)
_SCHEDULES = {
    "lr": "learning rate",
    "kl_coeff": "coefficient of the KL term",
    "critic_lr": "learning rate of the critic",
}
_FIXED = {
    "grad_clip_by": ("global_norm", "the norm of all gradients together is what is clipped"),
    "batch_mode": ("complete_episodes", "a rollout group is made of whole episodes"),
    "evaluation_duration_unit": ("episodes", "the panel has one episode a task"),
    "enable_rl_module_and_learner": (True, "there is no implementation for RLlib's old API stack"),
    "enable_env_runner_and_connector_v2": (True, "there is no implementation for RLlib's old API stack"),
}


def check_value_types(config: Any) -> Iterator[str]:
    """Yields a message for each value of a GroupPolicyConfig that is of a wrong type, and for RLlib's out of range."""
    for key, (only, reason) in _FIXED.items():
        if getattr(config, key) != only:
            yield f"{key}={getattr(config, key)!r} must be {only!r}: {reason}."
    for key in _NUMBERS:
        if hasattr(config, key) and not _is_number(getattr(config, key)):
            yield f"{key}={getattr(config, key)!r} must be a finite number."
    for key in _NUMBERS_OR_NONE:
        value = getattr(config, key, None)
        if value is not None and not _is_number(value):
            yield f"{key}={value!r} must be a finite number, or None."
    for key, least in _INTEGERS.items():
        if not _is_integer(getattr(config, key), least):
            yield f"{key}={getattr(config, key)!r} must be an integer of at least {least}."
    for key, least in _INTEGERS_OR_NONE.items():
        value = getattr(config, key, None)
        if value is not None and not _is_integer(value, least):
            yield f"{key}={value!r} must be an integer of at least {least}, or None."
    for key in _RESOURCES:
        value = getattr(config, key)
        automatic = key == "num_cpus_per_learner"
        if not (_is_number(value) and value >= 0) and not (automatic and value == "auto"):
            or_automatic = ", or 'auto'" if automatic else ""
            yield f"{key}={value!r} must be a number of at least 0{or_automatic}."
    for key, description in _SCHEDULES.items():
        if not hasattr(config, key):
            continue
        yield from _check_schedule(key, getattr(config, key), description)
    yield from _check_optional_values(config)
    for key in ("tasks", "evaluation_tasks"):
        yield from _check_tasks(key, getattr(config, key))
    yield from _check_minus_one(config)


def check_dictionary(key: str, value: Any) -> None:
    """Raises ValueError where `value` has no keys to merge into a config."""
    if not hasattr(value, "items"):
        raise ValueError(f"{key}={value!r} must be a dict.")


def _check_optional_values(config: Any) -> Iterator[str]:
    seed, grad_clip, interval = config.seed, config.grad_clip, config.evaluation_interval
    if seed is not None and not (_is_integer(seed, 0) and seed < 2**32):
        yield f"seed={seed!r} must be an integer from 0 to 2**32 - 1, or None for a new one in each run."
    if grad_clip is not None and not (_is_number(grad_clip) and grad_clip > 0):
        yield f"grad_clip={grad_clip!r} must be a finite number greater than 0, or None for no clipping."
    if interval is not None and not _is_integer(interval, 0):
        yield f"evaluation_interval={interval!r} must be an integer of at least 0, or None for no evaluation."
    if config.model_path is not None and not isinstance(config.model_path, str):
        yield f"model_path={config.model_path!r} must be the path of a Hugging Face model directory, as a string."
    for key in _TRUE_OR_FALSE:
        if not isinstance(getattr(config, key, True), bool):
            yield f"{key}={getattr(config, key)!r} must be True or False."
    if not isinstance(config.train_on_zero_signal_groups, bool | None):
        yield f"train_on_zero_signal_groups={config.train_on_zero_signal_groups!r} must be True or False, or None."
    if not isinstance(config.env_config, dict):
        yield f"env_config={config.env_config!r} must be a dict."
    betas = config.adam_betas
    is_pair = isinstance(betas, list | tuple) and len(betas) == 2
    if not is_pair or not all(_is_number(beta) and 0 <= beta < 1 for beta in betas):
        yield f"adam_betas={betas!r} must be two numbers of at least 0 and less than 1, like (0.9, 0.999)."


def _check_schedule(key: str, value: Any, description: str) -> Iterator[str]:
    """Of a number that is not negative, or of RLlib's schedules of such."""
    is_fixed = isinstance(value, int | float) and not isinstance(value, bool)
    wrong_type = f"{key}={value!r} must be a number or a schedule [[0, value], [timestep, value], …]"
    if not is_fixed and not isinstance(value, list | tuple):
        yield f"{wrong_type}."
        return
    try:
        Scheduler.validate(fixed_value_or_schedule=value, setting_name=key, description=description)
        points = [(0, value)] if is_fixed else [(step, rate) for step, rate in value]
    except (ValueError, TypeError, IndexError, KeyError) as problem:
        yield f"{wrong_type}: {problem}"
        return
    if not all(_is_number(step) and _is_number(rate) for step, rate in points):
        yield f"{wrong_type}, of finite numbers."
    elif any(later < earlier for (earlier, _), (later, _) in pairwise(points)):
        yield f"{wrong_type}, with timesteps in increasing order."
    elif any(rate < 0 for _, rate in points):
        yield f"{key}={value!r} must not be negative."


def _check_tasks(key: str, tasks: Any) -> Iterator[str]:
    # No other sequence: a text is one of characters, and RLlib cannot compare an array with its mark of old values.
    if tasks is not None and (not isinstance(tasks, list | tuple | range) or len(tasks) == 0):
        text = repr(tasks)
        shown = text if len(text) <= 80 else f"{text[:80]}… ({type(tasks).__name__})"
        yield f"{key}={shown} must be a list, tuple or range of at least one task, or None for generated tasks."


def _check_minus_one(config: Any) -> Iterator[str]:
    """RLlib takes -1 for "not set" in every key: checkpoints leave it out, and its default would come back."""
    defaults = vars(type(config)())
    # -1 is outside the ranges of our own numbers, which have checks that say more.
    keys = vars(config).keys() - {*_NUMBERS, *_NUMBERS_OR_NONE}
    for key in sorted(keys):
        value = getattr(config, key)
        if isinstance(value, Real) and value == DEPRECATED_VALUE and defaults.get(key) != DEPRECATED_VALUE:
            yield f"{key}={value!r} must not be -1, which RLlib takes for a key that is not set."


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def _is_integer(value: Any, least: int) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least
