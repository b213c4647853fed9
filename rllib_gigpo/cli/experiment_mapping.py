"""RLlib's experiment format, {run, env, stop, config, …}, as a YAML file or the command's options give it."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rllib_gigpo import registry
from rllib_gigpo.cli.experiment import DEFAULT_STORAGE_PATH, Checkpoints, Experiment

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

_KEYS = ("run", "env", "stop", "config", "num_samples", "checkpoint_config", "storage_path", "restore", "max_failures")
_CHECKPOINT_KEYS = {
    "checkpoint_frequency": "frequency",
    "checkpoint_at_end": "at_end",
    "num_to_keep": "num_to_keep",
    "checkpoint_score_attribute": "score_attribute",
    "checkpoint_score_order": "score_order",
}
_GONE_KEYS = {
    "algo": "write run",
    "checkpoint_freq": "write checkpoint_config: {checkpoint_frequency: …}",
    "checkpoint_at_end": "write checkpoint_config: {checkpoint_at_end: …}",
    "keep_checkpoints_num": "write checkpoint_config: {num_to_keep: …}",
    "checkpoint_score_attr": "write checkpoint_config: {checkpoint_score_attribute: …}",
    "local_dir": "write storage_path",
    "upload_dir": "write storage_path",
    "sync_config": "write storage_path",
    "resources_per_trial": "set num_env_runners, num_learners and num_gpus_per_learner in config",
    "trial_resources": "set num_env_runners, num_learners and num_gpus_per_learner in config",
    "pass_criteria": "it belonged to RLlib's own tests",
}
# The model_path that stands for the tiny model that comes with the environment.
EMBEDDED = "embedded"


def experiment_from_mapping(name: str, spec: Any, where: str, *, stop: Mapping[str, float] | None = None) -> Experiment:
    """The experiment that `spec` describes; `stop` replaces its own.

    Args:
        name: Of the run's folder.
        spec: {run, env, stop, config, …}.
        where: What messages call it, like "experiment 'a' of b.yaml".
        stop: Result keys to the values at which training stops.

    Raises:
        ValueError: A key is missing, unknown or has an impossible value, or `name` names no folder; the message names
            it.
    """
    if not isinstance(spec, Mapping):
        raise ValueError(f"{where} is {spec!r}; it must be a mapping like {{run: GiGPO, env: EZPoints, …}}")
    check_name(name, where)
    _check_keys(spec, _KEYS, where, gone=_GONE_KEYS)
    config = _config(spec, where)
    if stop is None and "stop" not in spec:
        raise ValueError(f"{where} has no `stop`; training would never end. Add for example {{training_iteration: 40}}")
    return Experiment(
        name=name,
        config=config,
        stop=check_stop(spec["stop"], f"`stop` of {where}") if stop is None else stop,
        num_samples=_integer(spec, "num_samples", 1, 1, where),
        checkpoints=_checkpoints(spec.get("checkpoint_config", {}), where),
        storage_path=_path(spec, "storage_path", where) or DEFAULT_STORAGE_PATH,
        restore=_path(spec, "restore", where),
        max_failures=_integer(spec, "max_failures", 0, -1, where),
    )


def check_name(name: str, where: str) -> None:
    """Raises ValueError for a name that the run's folder could not have."""
    if name.strip() in ("", ".", "..") or any(character in name for character in "/\\\0"):
        raise ValueError(
            f"{where}: {name!r} cannot be the name of an experiment; its folder is named after it, so that it must "
            f"not be empty, . or .., nor hold a path separator"
        )


def check_stop(stop: Any, where: str) -> dict[str, float]:
    """`stop` itself. Raises ValueError if it is not a filled mapping of result keys to numbers."""
    example = '{"training_iteration": 40}'
    if not isinstance(stop, dict) or not stop:
        raise ValueError(f"{where} is {stop!r}; it must be a dictionary of result keys to numbers, like {example}")
    for key, value in stop.items():
        is_number = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
        if not isinstance(key, str) or not is_number:
            raise ValueError(f"{where} has {key!r}: {value!r}; a result key and a number are needed, like {example}")
    return {key: float(value) for key, value in stop.items()}


def with_config(config: AlgorithmConfig, changes: Mapping[str, Any], where: str) -> AlgorithmConfig:
    """A copy of `config` with `changes`, keys of a config to values, as a text gave them.

    Raises:
        ValueError: An unknown key, or one that is no text, a grid_search without values, another framework than torch,
            the old API stack, or code to evaluate.
    """
    from rllib_gigpo.cli.search_space import check_grids, refuse_code

    for key in changes:
        if not isinstance(key, str):
            raise ValueError(f"{where} has the config key {key!r}, which is no text; config keys are like lr")
    refuse_code(changes, where)
    check_grids(changes, where)
    changes = dict(changes)
    check_framework(changes.pop("framework", "torch"), where)
    for key in ("enable_rl_module_and_learner", "enable_env_runner_and_connector_v2", "_enable_new_api_stack"):
        if not changes.pop(key, True):
            raise ValueError(f"{where} sets {key} to false, but only RLlib's new API stack is here; leave it out")
    try:
        return config.copy(copy_frozen=False).update_from_dict(changes)
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{where}: {error.args[0] if error.args else error}") from error


def check_framework(framework: Any, where: str) -> None:
    """Raises ValueError for anything but torch."""
    if framework != "torch":
        raise ValueError(f"{where} sets framework to {framework!r}, but there is only torch here; leave it out")


def with_model_path(config: AlgorithmConfig) -> AlgorithmConfig:
    """A copy whose `model_path` does not depend on the working folder, which checkpoints and workers do not share.

    "embedded" becomes the path of the tiny model that comes with the environment, in search spaces too.

    Raises:
        ValueError: "embedded", but the environment has no such model; or no path at all.
    """
    model_path = getattr(config, "model_path", None)
    if model_path is None:
        return config
    return config.copy(copy_frozen=False).update_from_dict(
        {"model_path": _resolved(model_path, config.env, config.env_config)}
    )


def _resolved(model_path: Any, env: Any, env_config: Mapping[str, Any]) -> Any:
    if isinstance(model_path, Mapping) and set(model_path) == {"grid_search"}:
        return {"grid_search": [_resolved(value, env, env_config) for value in model_path["grid_search"]]}
    if model_path == EMBEDDED:
        known = env in registry.environment_names()
        embedded = registry.environment(env).embedded_model_of(env_config) if known else None
        if embedded is None:
            raise ValueError(f"model_path={EMBEDDED!r}: environment {env!r} has no embedded model; give a directory")
        return str(embedded)
    if isinstance(model_path, str | Path):
        return str(Path(model_path).expanduser().absolute())
    if isinstance(model_path, bool | int | float | list | Mapping):
        raise ValueError(f"model_path is {model_path!r}; it must be the path of a directory, a text")
    return model_path  # a distribution of Tune's


def _config(spec: Mapping[str, Any], where: str) -> AlgorithmConfig:
    if spec.get("run") is None:
        raise ValueError(f"{where} has no `run`; it names the algorithm, one of {_names()}")
    if not isinstance(spec["run"], str):
        raise ValueError(f"`run` of {where} is {spec['run']!r}; it names the algorithm, one of {_names()}")
    changes = spec.get("config") or {}
    if not isinstance(changes, Mapping):
        raise ValueError(f"`config` of {where} is {changes!r}; it must be a mapping like {{lr: 1e-6}}")
    if "env" in spec:
        if changes.get("env", spec["env"]) != spec["env"]:
            raise ValueError(f"{where} has env {spec['env']!r}, and another one, {changes['env']!r}, in config")
        changes = {**changes, "env": spec["env"]}
    try:
        algo_class = registry.algorithm_class(spec["run"])
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error
    return with_config(algo_class.get_default_config(), changes, where)


def _names() -> str:
    return ", ".join(registry.algorithm_names())


def _checkpoints(values: Any, where: str) -> Checkpoints:
    where = f"`checkpoint_config` of {where}"
    if not isinstance(values, Mapping):
        raise ValueError(f"{where} is {values!r}; it must be a mapping like {{checkpoint_frequency: 5}}")
    _check_keys(values, _CHECKPOINT_KEYS, where)
    if values.get("checkpoint_score_order", "max") not in ("max", "min"):
        raise ValueError(f"checkpoint_score_order in {where} is {values['checkpoint_score_order']!r}, not max or min")
    if "num_to_keep" in values and values["num_to_keep"] is not None:
        _integer(values, "num_to_keep", 1, 1, where)
    _integer(values, "checkpoint_frequency", 0, 0, where)
    if not isinstance(values.get("checkpoint_at_end", True), bool):
        raise ValueError(f"checkpoint_at_end in {where} is {values['checkpoint_at_end']!r}; it must be true or false")
    return Checkpoints(**{_CHECKPOINT_KEYS[key]: value for key, value in values.items()})


def _path(values: Mapping[str, Any], key: str, where: str) -> Path | None:
    value = values.get(key)
    if value is not None and not (isinstance(value, str | Path) and str(value)):
        raise ValueError(f"{key} in {where} is {value!r}; it must be a path, a text")
    return None if value is None else Path(value).expanduser()


def _integer(values: Mapping[str, Any], key: str, default: int, least: int, where: str) -> int:
    value = values.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{key} in {where} is {value!r}; it must be an integer of at least {least}")
    return value


def _check_keys(values: Mapping[Any, Any], known: Iterable[str], where: str, gone: Mapping[str, str] = {}) -> None:
    for key in values:
        if key in known:
            continue
        if key in gone:
            raise ValueError(f"{where} has the old key {key!r}: {gone[key]}")
        nearest = difflib.get_close_matches(str(key), list(known), n=1)
        hint = f"; did you mean {nearest[0]!r}?" if nearest else f"; known are {', '.join(known)}"
        raise ValueError(f"{where} has an unknown key {key!r}{hint}")
