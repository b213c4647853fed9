"""Makes the environment that is checked, in this process or in a new one, as an env runner would."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from rllib_gigpo import registry


def creator(name: str, env_config: Mapping[str, Any]) -> Callable[[], Any]:
    """A function that makes a new environment each time.

    Args:
        name: A registered name, a Gymnasium id or a class path.
        env_config: As in `config.environment(name, env_config=…)`.

    Raises:
        ValueError: There is no such environment.
    """
    # Brings neither Ray nor torch, which take seconds to import in a new process.
    if name in registry.environment_names():
        return partial(registry.environment(name).make, **env_config)
    from ray.rllib.env.env_context import EnvContext

    from rllib_gigpo.environments import check_environment, environment_creator

    check_environment(name)
    return partial(environment_creator(name), EnvContext(dict(env_config), worker_index=0, num_workers=0))
