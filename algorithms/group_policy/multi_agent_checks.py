"""Checks of what a config says about several agents and modules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ray.rllib.policy.policy import PolicySpec

from rllib_gigpo.algorithms.group_policy.self_play import self_play_modules
from rllib_gigpo.env_runners.policy_mapping import PolicyMapping
from rllib_gigpo.environments import environment_class, is_multi_agent

# What a module may have of its own: its model, and what its learner does with it.
_PER_MODULE = frozenset(
    {
        *("model_path", "model_dtype", "attn_implementation", "gradient_checkpointing", "share_prefixes"),
        *("freeze_vision_tower", "lora_rank", "lora_alpha", "lora_targets"),
        *("lr", "optimizer", "adam_betas", "weight_decay", "grad_clip", "micro_batch_tokens"),
        *("ratio", "clip_low", "clip_high", "dual_clip", "loss_aggregation", "importance_weight_cap"),
        *("kl_coeff", "kl_estimator", "entropy_coeff"),
    }
)


def policies_of_file(policies: Any) -> Any:
    """Policies as a file gives them, a list or names with nothing behind them. Raises ValueError for anything else."""
    if not isinstance(policies, str | dict | list | tuple | set):
        raise ValueError(f"policies={policies!r} must be a list of names.")
    if isinstance(policies, dict):
        return {module_id: PolicySpec() if spec is None else spec for module_id, spec in policies.items()}
    return policies


def check_multi_agent(config: Any) -> Iterator[str]:
    """Yields a message for everything that cannot work; the other values must have been checked.

    What only an environment can tell, the env runners check when they make their first one.
    """
    yield from _check_policies(config)
    yield from _check_overrides(config)
    yield from _check_self_play(config)
    if config.is_multi_agent and is_multi_agent(config.env) is False:
        yield (
            f"multi_agent(policies={sorted(config.policies)}) does not apply: env={config.env!r} is no RLlib "
            "MultiAgentEnv. Leave it out, or choose another environment."
        )
        return
    if not callable(config.policy_mapping_fn):
        yield f"policy_mapping_fn={config.policy_mapping_fn!r} must be a function (agent_id, episode, **kwargs) -> id."
        return
    agents = getattr(environment_class(config.env), "possible_agents", None)
    if is_multi_agent(config.env) and isinstance(agents, list | tuple):
        try:
            PolicyMapping.of_config(config).check(agents)
        except ValueError as problem:
            yield f"{problem}."


def _check_policies(config: Any) -> Iterator[str]:
    if not config.policies:
        yield "multi_agent(policies={}) names no policy: name at least one."
    for module_id, spec in config.policies.items():
        given = PolicySpec(*spec) if isinstance(spec, list | tuple) else spec
        if given.policy_class is not None or given.config:
            yield (
                f"multi_agent(policies={{{module_id!r}: …}}) gives a policy_class or config, which does nothing: use "
                f"rl_module(algorithm_config_overrides_per_module={{{module_id!r}: type(config).overrides(…)}})."
            )
    to_train = config.policies_to_train
    # A text is one of letters, to RLlib.
    if not (to_train is None or callable(to_train) or isinstance(to_train, list | set | tuple)):
        yield f"policies_to_train={to_train!r} must be a list of policies, such as ['cook'], or None for all."
    elif isinstance(to_train, list | set | tuple) and len(to_train) == 0:
        yield "multi_agent(policies_to_train=[]) trains nothing: name at least one policy, or None for all."
    if config.observation_fn is not None:
        yield f"observation_fn={config.observation_fn!r} does not apply: wrap the environment instead."
    if config.count_steps_by != "env_steps":
        yield f"count_steps_by={config.count_steps_by!r} does not apply: an iteration is counted in groups."


def _check_self_play(config: Any) -> Iterator[str]:
    if config.self_play_agent is None:
        return
    interval = config.snapshot_interval
    if not isinstance(interval, int) or isinstance(interval, bool) or interval < 1:
        yield f"snapshot_interval={interval!r} must be an integer of at least 1."
    agents = getattr(environment_class(config.env), "possible_agents", None)
    # RLlib's own class has an empty list: of a game whose agents depend on its options, nothing is known yet.
    if agents and isinstance(agents, list | tuple) and config.self_play_agent not in agents:
        yield f"self_play_agent={config.self_play_agent!r} is no agent of env={config.env!r}; there are {list(agents)}."
    if set(config.policies) != set(self_play_modules(config.past_versions)):
        yield (
            f"self_play(past_versions={config.past_versions}) needs the policies "
            f"{self_play_modules(config.past_versions)}, but multi_agent(…) has set {sorted(config.policies)}: leave "
            "that out, or call self_play(…) after it."
        )


def _check_overrides(config: Any) -> Iterator[str]:
    every = config.algorithm_config_overrides_per_module
    if not isinstance(every, dict):
        yield f"algorithm_config_overrides_per_module={every!r} must be a dict from modules to dicts of their values."
    for module_id, overrides in every.items():
        name = f"algorithm_config_overrides_per_module[{module_id!r}]"
        if module_id not in config.policies:
            yield f"{name}: there is no such module; multi_agent(policies=…) names {sorted(config.policies)}."
        if not isinstance(overrides, dict):
            yield f"{name}={overrides!r} must be a dict, as type(config).overrides(…) makes one."
        for key in overrides:
            if key not in _PER_MODULE:
                yield f"{name}: {key} cannot differ between modules; {', '.join(sorted(_PER_MODULE))} can."
            elif key in ("kl_coeff", "kl_estimator") and config.kl_in == "reward":
                yield f"{name}: {key} cannot differ between modules with kl_in='reward', only with kl_in='loss'."
        merged = config.copy(copy_frozen=False)
        merged.algorithm_config_overrides_per_module = {}
        merged.update_from_dict(dict(overrides))
        # The algorithm's own checks too: a value may contradict one that is not the module's own.
        try:
            merged.validate()
        except ValueError as problem:
            yield f"{name}: {problem}"
