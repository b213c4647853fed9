"""Finds algorithms, environments, tuned examples and RLModules by name, through entry points of distributions.

The platform so knows none of them by import, and other distributions can add their own:

    [project.entry-points."rllib_gigpo.environments"]
    MyGame = "my_package.my_game:MY_GAME"        # an EnvironmentEntry

A name is resolved when it is asked for; listing names imports nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from difflib import get_close_matches
from functools import lru_cache, partial
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rllib_gigpo.environment_entry import EnvironmentEntry

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm import Algorithm

ALGORITHMS = "rllib_gigpo.algorithms"
ENVIRONMENTS = "rllib_gigpo.environments"
EXAMPLES = "rllib_gigpo.examples"
RL_MODULES = "rllib_gigpo.rl_modules"


def algorithm_names() -> list[str]:
    """All names for `algorithm_class`, sorted."""
    return sorted(_entries(ALGORITHMS))


def algorithm_class(name: str) -> type[Algorithm]:
    """The Algorithm of that name. Raises ValueError for an unknown name."""
    found: type[Algorithm] = _entry(ALGORITHMS, "algorithm", name).load()
    return found


def environment_names() -> list[str]:
    """All names for `environment`, sorted."""
    return sorted(_entries(ENVIRONMENTS))


def environment(name: str) -> EnvironmentEntry:
    """The entry of the environment of that name.

    Raises:
        ValueError: The name is unknown.
        TypeError: The name is registered for something that is not an `EnvironmentEntry`.
    """
    found = _entry(ENVIRONMENTS, "environment", name).load()
    if not isinstance(found, EnvironmentEntry):
        raise TypeError(
            f"the entry point {name!r} of {ENVIRONMENTS} is a {type(found).__name__}, it must be an EnvironmentEntry"
        )
    return found


def make_environment(name: str, env_config: Mapping[str, Any]) -> Any:
    """A new environment of that name; `env_config` holds the keyword arguments of its class."""
    return environment(name).make(**env_config)


def example_names() -> list[str]:
    """All names for `example_module`, sorted."""
    return sorted(_entries(EXAMPLES))


def example_module(name: str) -> str:
    """The module of the tuned example of that name, not imported. Raises ValueError for an unknown name."""
    return _entry(EXAMPLES, "example", name).module


def rl_module_names() -> list[str]:
    """The kinds of models, by `model_type`, that have an RLModule of their own, sorted."""
    return sorted(_entries(RL_MODULES))


def rl_module_class(model_type: str) -> Any | None:
    """What is registered for models with this `model_type` in their config.json; None where nothing is."""
    entry = _entries(RL_MODULES).get(model_type)
    return None if entry is None else entry.load()


def register_with_ray() -> None:
    """Makes algorithms and environments known to Ray by name: for `tune.Tuner("GiGPO")`, `.environment("EZPoints")`.

    Ray keeps pickled values in its registry and unpickles one when it is looked up, in whichever process. What goes in
    here is a reference to the name, so that registering imports no algorithm, environment or torch.

    A name that RLlib gives to an algorithm of its own, such as PPO, stays RLlib's in Ray: `tune.Tuner` takes ours as a
    class.

    `rllib_gigpo/__init__.py` calls this as soon as `ray.tune.registry` is imported, and after each `ray.shutdown`,
    with which Ray forgets all registered names.
    """
    from ray.tune import registry as ray_registry

    for name in algorithm_names():
        if _is_name_of_rllib(name, Path(ray_registry.__file__).parents[1]):
            continue
        # Not `tune.register_trainable`: it wants the class itself, and so would import every algorithm.
        ray_registry._global_registry.register(ray_registry.TRAINABLE_CLASS, name, _AlgorithmByName(name))
    for name in environment_names():
        ray_registry.register_env(name, partial(make_environment, name))


def _is_name_of_rllib(name: str, ray_folder: Path) -> bool:
    # By its folder: RLlib registers its own only when it is imported, which takes seconds.
    return (ray_folder / "rllib" / "algorithms" / name.lower()).is_dir()


class _AlgorithmByName:
    """Is pickled as a call of `algorithm_class`: unpickling it gives the class."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __reduce__(self) -> tuple[Any, ...]:
        return algorithm_class, (self._name,)


def _entry(group: str, kind: str, name: str) -> EntryPoint:
    entries = _entries(group)
    if name not in entries:
        lower = {known.lower(): known for known in entries}
        nearest = get_close_matches(name.lower(), lower, n=1)
        suggestion = f" Did you mean {lower[nearest[0]]!r}?" if nearest else ""
        raise ValueError(f"unknown {kind} {name!r}.{suggestion} Known: {', '.join(sorted(entries)) or 'none'}.")
    return entries[name]


def _entries(group: str) -> dict[str, EntryPoint]:
    entries: dict[str, EntryPoint] = {}
    for entry in _installed(group, _state_of_path()):
        other = entries.setdefault(entry.name, entry)
        if other.value != entry.value:
            raise ValueError(
                f"two installed distributions register {entry.name!r} in {group}: {other.value} and {entry.value}; "
                f"uninstall one of them"
            )
    return entries


@lru_cache(maxsize=16)
def _installed(group: str, state_of_path: tuple[tuple[str, int], ...]) -> tuple[EntryPoint, ...]:
    """The entry points of all distributions, whose files would else be read at every look-up, of which a config makes a
    dozen: `state_of_path` changes where one is installed meanwhile."""
    return tuple(entry_points(group=group))


def _state_of_path() -> tuple[tuple[str, int], ...]:
    """The folders of `sys.path`, each with the time in nanoseconds of its last change."""
    return tuple((folder, os.stat(folder).st_mtime_ns) for folder in map(str, sys.path) if os.path.isdir(folder))
