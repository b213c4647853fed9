"""Checks of a group-relative algorithm's config: a problem is one message that names the key, the value and the fix."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

from rllib_gigpo.agent_formats import check_parser
from rllib_gigpo.algorithms.group_policy.compile_checks import check_compile
from rllib_gigpo.algorithms.group_policy.engine_checks import check_engine
from rllib_gigpo.algorithms.group_policy.env_worker_checks import check_env_workers
from rllib_gigpo.algorithms.group_policy.guard_checks import check_guards
from rllib_gigpo.algorithms.group_policy.learner_checks import check_learners
from rllib_gigpo.algorithms.group_policy.overlap import check_overlap
from rllib_gigpo.algorithms.group_policy.value_checks import check_dictionary, check_value_types
from rllib_gigpo.environments import check_env_config, check_environment
from rllib_gigpo.rl_modules.lora import check_lora_targets
from rllib_gigpo.rl_modules.model_directory import read_model_config, validate_model_directory

# RLlib and Tune put these into a config dict though they are not attributes of a config.
_RLLIB_SPECIAL_KEYS = frozenset(
    {
        "class",
        "multiagent",
        "env_task_fn",
        "custom_resources_per_worker",
        "__trial_info__",
        "__stdout_file__",
        "__stderr_file__",
    }
)

_CHOICES = {
    "engine": ("hf", "vllm"),
    "model_dtype": ("float32", "bfloat16"),
    "advantage_norm": ("std", "mean"),
    "reference": ("paper", "verl-agent"),
    "ratio": ("token", "sequence"),
    "loss_aggregation": (
        "token-mean",
        "sequence-mean-token-mean",
        "sequence-mean-token-sum",
        "sequence-mean-token-sum-norm",
    ),
    "kl_estimator": ("k1", "k2", "k3"),
    "kl_in": ("loss", "reward"),
    "optimizer": ("adamw", "sgd"),
    "sharding": (None, "fsdp"),
}
_NOT_NEGATIVE = ("advantage_std_floor", "invalid_action_penalty", "entropy_coeff", "weight_decay")

# What `evaluate` reads from the merged evaluation config.
_EVALUATION_KEYS = frozenset({"temperature", "top_p", "top_k", "max_response_tokens", "stop", "evaluation_duration"})


def check_known_keys(config: AlgorithmConfig, keys: Iterable[str]) -> None:
    """Raises ValueError for a key that `config` does not have, with the nearest one that it has."""
    known = set(vars(config)) | {
        name for name in dir(type(config)) if isinstance(getattr(type(config), name), property)
    }
    for key in keys:
        translated = config._translate_special_keys(key, warn_deprecated=False)
        if translated not in known and key not in _RLLIB_SPECIAL_KEYS:
            raise ValueError(_unknown(f"{type(config).__name__} has no key", key, known))


def check_keyword_arguments(method: str, rllib_method: Callable[..., Any], kwargs: dict[str, Any], *ours: Any) -> None:
    """Raises TypeError for a keyword argument that neither RLlib's method nor ours takes, ValueError for no dict."""
    known = {name for function in (rllib_method, *ours) for name in inspect.signature(function).parameters}
    for key in kwargs:
        if key not in known:
            raise TypeError(_unknown(f"{method}() has no argument", key, known - {"self", "kwargs"}))
    for key in ("env_config", "evaluation_config"):  # RLlib merges them at once
        if kwargs.get(key) is not None:
            check_dictionary(key, kwargs[key])


def check_types(config: Any) -> Iterator[str]:
    """Yields a message for each value of a GroupPolicyConfig that RLlib's own checks should not meet."""
    if config.model_dtype == "float16":
        yield "model_dtype='float16' can sample but not be trained; choose 'bfloat16', or 'float32'."
    if config.engine == "openai":
        yield (
            "engine='openai' has no weights to train; choose 'hf' or 'vllm'. `rllib evaluate --agent` evaluates models "
            "behind OpenAI-compatible servers."
        )
        return
    for key, choices in _CHOICES.items():
        if getattr(config, key) not in choices:
            yield f"{key}={getattr(config, key)!r} is unknown; choose one of {', '.join(map(repr, choices))}."
    yield from check_value_types(config)


def check_single_values(config: Any) -> Iterator[str]:
    """Yields a message for each value that is wrong without a look at the model, the engine or the environment."""
    yield from check_types(config)
    yield from check_loss(config)
    yield from check_lora(config)
    yield from check_guards(config)


def check_numbers_of_processes(config: Any) -> Iterator[str]:
    """Yields a message for each value that does not go with the numbers of env runners and learners."""
    yield from _check_groups(config)
    yield from check_learners(config)
    yield from check_overlap(config)


def check_values(config: Any) -> Iterator[str]:
    """Yields a message for each value of a GroupPolicyConfig that cannot work, or not with the others.

    Their types must be right, see `check_types`.
    """
    defaults = AlgorithmConfig()
    if config.train_batch_size != defaults.train_batch_size or config._train_batch_size_per_learner is not None:
        yield (
            "train_batch_size and train_batch_size_per_learner do not apply: a batch is groups_per_iteration x "
            "group_size whole trajectories. Set training(groups_per_iteration=…, group_size=…) instead."
        )
    if config.minibatch_size != defaults.minibatch_size:
        yield f"minibatch_size={config.minibatch_size} does not apply: set a count, training(num_minibatches=…)."
    for key in _NOT_NEGATIVE:
        if not getattr(config, key) >= 0:
            yield f"{key}={getattr(config, key)!r} must not be negative."
    yield from check_loss(config)
    yield from check_lora(config)
    yield from _check_groups(config)
    yield from _check_environment(config)
    yield from check_env_workers(config)
    yield from check_model(config)
    yield from check_engine(config)
    yield from check_compile(config)
    yield from check_learners(config)
    yield from check_overlap(config)
    yield from check_guards(config)
    yield from _check_evaluation(config)


def check_loss(config: Any) -> Iterator[str]:
    """Yields a message for each value of the loss that cannot work."""
    if not 0 < config.clip_low <= 1:
        yield f"clip_low={config.clip_low} must be in (0, 1]."
    if not config.clip_high > 0:
        yield f"clip_high={config.clip_high} must be greater than 0."
    if config.dual_clip is not None and not config.dual_clip > 1:
        yield f"dual_clip={config.dual_clip} must be greater than 1, or None."
    if config.importance_weight_cap is not None and not config.importance_weight_cap > 0:
        yield f"importance_weight_cap={config.importance_weight_cap} must be greater than 0, or None."
    for key in ("sampler_gap_warning", "sampler_gap_limit"):
        if getattr(config, key) is not None and not getattr(config, key) > 0:
            yield f"{key}={getattr(config, key)} must be greater than 0, or None."
    if not 0 <= config.gamma <= 1:
        yield f"gamma={config.gamma} must be in [0, 1]."
    if not config.in_evaluation and not config.temperature > 0:
        yield (
            f"temperature={config.temperature} cannot be trained on: sampling must be random. Set it greater than 0; "
            "for greedy evaluation use evaluation(evaluation_config=type(config).overrides(temperature=0))."
        )


def _check_evaluation(config: Any) -> Iterator[str]:
    tasks = config.evaluation_tasks
    if tasks is not None and len(tasks) < config.evaluation_duration:
        yield (
            f"evaluation_duration={config.evaluation_duration} asks for more tasks than evaluation_tasks holds "
            f"({len(tasks)}): lower evaluation(evaluation_duration=…), or give more evaluation_tasks."
        )
    if not config.explore:
        yield (
            f"explore={config.explore!r} does not apply: how responses are sampled is the temperature's. For greedy "
            "evaluation use evaluation(evaluation_config=type(config).overrides(temperature=0))."
        )
    if config.in_evaluation or not config.evaluation_config:
        return
    try:
        merged = config.get_evaluation_config_object()
    except (ValueError, TypeError) as problem:
        yield f"evaluation_config: {problem}"
        return
    for check in (check_types, check_values):
        for found in check(merged):
            yield f"evaluation_config: {found}"
    for key in config.evaluation_config:
        if key not in _EVALUATION_KEYS | {"explore"}:
            yield (
                f"evaluation_config: {key} has no effect: evaluation plays the training environments with the training "
                f"prompts, and takes {', '.join(sorted(_EVALUATION_KEYS))}."
            )


def check_lora(config: Any) -> Iterator[str]:
    """Yields a message for each value of the LoRA adapter that cannot work."""
    if config.lora_rank is None:
        for key, default in (("lora_alpha", None), ("lora_targets", "all-linear")):
            if getattr(config, key) != default:
                yield f"{key}={getattr(config, key)!r} does nothing without language_model(lora_rank=…)."
        return
    if not isinstance(config.lora_rank, int) or isinstance(config.lora_rank, bool) or config.lora_rank < 1:
        yield f"lora_rank={config.lora_rank!r} must be an integer of at least 1, or None for training all weights."
    if config.lora_alpha is not None and not config.lora_alpha > 0:
        yield f"lora_alpha={config.lora_alpha!r} must be greater than 0, or None for lora_rank."


def _check_groups(config: Any) -> Iterator[str]:
    if config.group_size < config.min_group_size:
        name = type(config).__name__
        yield (
            f"group_size={config.group_size} is too small: {name} compares the trajectories of a group, so it needs at "
            f"least {config.min_group_size}. Set training(group_size=…)."
        )
    yield from _check_dynamic_sampling(config)
    if config.num_envs_per_env_runner < config.group_size:
        yield (
            f"num_envs_per_env_runner={config.num_envs_per_env_runner} has no room for a group of "
            f"group_size={config.group_size}: set env_runners(num_envs_per_env_runner=…) to at least group_size."
        )
    if config.num_learners > config.group_size * config.groups_per_iteration:
        yield (
            f"num_learners={config.num_learners} is more than an iteration has trajectories, group_size="
            f"{config.group_size} x groups_per_iteration={config.groups_per_iteration}: some would never have anything "
            "to learn. Lower learners(num_learners=…)."
        )
    if config.evaluation_num_env_runners:
        yield (
            f"evaluation_num_env_runners={config.evaluation_num_env_runners} does not apply: evaluation runs on the "
            "training env runners. Leave it at 0."
        )


def _check_dynamic_sampling(config: Any) -> Iterator[str]:
    if not config.dynamic_sampling:
        return
    if config.group_size < 2:
        yield (
            "dynamic_sampling looks for groups whose members differ, and a group of "
            f"group_size={config.group_size} never has a signal: set training(group_size=…) to at least 2, or "
            "dynamic_sampling=False."
        )
    if config.train_on_zero_signal_groups:
        yield (
            "train_on_zero_signal_groups=True contradicts dynamic_sampling=True, which trains on other groups in place "
            "of those without a signal: set one of them to False."
        )


def _check_environment(config: Any) -> Iterator[str]:
    try:
        check_environment(config.env)
        check_env_config(config.env, config.env_config)
        config.sampling_params()
        check_parser(config.resolved_agent_format().response_parser)
    except ValueError as problem:
        yield str(problem)


def check_model(config: Any) -> Iterator[str]:
    """Yields a message where the model cannot be loaded, adapted, or hold a prompt and response."""
    try:
        if config.model_path is None:
            raise ValueError(
                "model_path is not set: language_model(model_path=…) takes a Hugging Face model directory. The tiny "
                "model that comes with an environment is embedded_model_path(name), for the `rllib` command "
                '"embedded".'
            )
        validate_model_directory(config.model_path)
        check_vision_tower(config.model_path, freeze=config.freeze_vision_tower)
        if config.lora_rank is not None:
            check_lora_targets(config.model_path, config.lora_targets)
        _check_context_length(config)
    except ValueError as problem:
        yield str(problem)


def check_vision_tower(model_path: str, *, freeze: bool) -> None:
    """Raises ValueError where the vision tower of a model that has none is to be frozen."""
    from rllib_gigpo.rl_modules.module_choice import language_module_class

    if freeze and not language_module_class(model_path).reads_images:
        raise ValueError(
            f"freeze_vision_tower=True does nothing: the model {model_path} reads text alone. Leave it out."
        )


def _check_context_length(config: Any) -> None:
    """Raises ValueError where a full prompt and response do not fit into the model's context."""
    model_config = read_model_config(config.model_path)
    # Of a vision-language model, its language model's, which may stand apart.
    context = {**model_config, **model_config.get("text_config", {})}.get("max_position_embeddings")
    needed = config.max_prompt_tokens + config.max_response_tokens
    if context is not None and needed > context:
        raise ValueError(
            f"max_prompt_tokens={config.max_prompt_tokens} and max_response_tokens={config.max_response_tokens} need "
            f"{needed} positions, but the model {config.model_path} has max_position_embeddings={context}. "
            "Lower them with generation(…)."
        )


def _unknown(prefix: str, key: str, known: set[str]) -> str:
    nearest = difflib.get_close_matches(key, sorted(known), n=1)
    return f"{prefix} {key!r}" + (f"; did you mean {nearest[0]!r}?" if nearest else ".")
