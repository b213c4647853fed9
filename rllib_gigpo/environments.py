"""What the platform asks about a config's environment: does it exist, and what is its agent format."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from ray.tune.registry import ENV_CREATOR, _global_registry

from rllib_gigpo import registry
from rllib_gigpo.agent_formats import AgentFormat
from rllib_gigpo.env_runners.environment_worker import make_registered
from rllib_gigpo.images import IMAGE, TEXT

# For environments that bring no format of their own.
GENERIC_AGENT_FORMAT = AgentFormat(
    prompt_template="""\
{% if task %}
Task: {{ task }}
{% endif %}
{% for turn in history %}
Observation: {{ turn.observation }}
Action: {{ turn.action }}
{% endfor %}
Observation: {{ observation }}
{% if admissible_actions %}
Admissible actions: {{ admissible_actions | join(", ") }}
{% endif %}
Think first, then act. Answer as <think>your reasoning</think><action>your action</action>""",
    history_length=2,
)


def default_agent_format(env: Any, env_config: Mapping[str, Any] | None = None) -> AgentFormat:
    """The agent format of a registered environment's name with these options, or the generic one."""
    if isinstance(env, str) and env in registry.environment_names():
        return registry.environment(env).agent_format_of(env_config or {})
    return GENERIC_AGENT_FORMAT


def check_environment(env: Any) -> None:
    """Raises ValueError where a config's `env` cannot be made.

    It is a name that is registered with rllib_gigpo, Gymnasium or Ray, a class path such as "package.module.Class", a
    subclass of `gym.Env`, or a function from an EnvContext to an environment.
    """
    if env is None:
        raise ValueError(f"env is not set: use environment(…) with one of {', '.join(registry.environment_names())}.")
    if not isinstance(env, str):
        _check_creator(env, f"env={env!r}")
    elif env not in gym.registry and not _global_registry.contains(ENV_CREATOR, env):
        if "." in env:
            _check_creator(_imported(env), f"env={env!r}")
        else:
            _check_registered(env)


def _check_registered(name: str) -> None:
    try:
        registry.environment(name)
    except ValueError as error:
        raise ValueError(
            f"{error} One of your own goes by the path of its class or of a function that makes it, such as "
            f"my_package.my_module.{name}, or by a name that its distribution registers."
        ) from error


def check_env_config(env: Any, env_config: Mapping[str, Any]) -> None:
    """Raises ValueError where `env_config` has a key that is no argument of the class of a registered environment."""
    if not isinstance(env, str) or env not in registry.environment_names() or (found := environment_class(env)) is None:
        return
    arguments = inspect.signature(found).parameters
    if any(argument.kind is argument.VAR_KEYWORD for argument in arguments.values()):
        return
    for key in env_config:
        if key not in arguments:
            nearest = difflib.get_close_matches(str(key), arguments, n=1)
            hint = f"did you mean {nearest[0]!r}?" if nearest else f"it has {', '.join(arguments) or 'none'}."
            raise ValueError(f"env_config has {key!r}, which environment {env!r} does not know; {hint}")


def environment_creator(env: Any) -> Callable[[Any], Any]:
    """The creator `EnvContext -> environment` of a config's `env` that `check_environment` takes.

    A class gets the EnvContext as its only argument, a Gymnasium id its keys as keyword arguments.
    """
    if not isinstance(env, str):
        creator: Callable[[Any], Any] = env
    elif _global_registry.contains(ENV_CREATOR, env):
        creator = _global_registry.get(ENV_CREATOR, env)
    elif env not in gym.registry and "." in env:
        creator = _imported(env)
    else:
        # By its specification: Gymnasium's registry of another process need not have the name.
        creator = partial(make_registered, gym.spec(env))
    return creator


def check_observation_space(space: gym.Space | None, *, model_path: str | None) -> None:
    """Raises ValueError where a model would not see what an environment shows: an array that is no image, or an image
    where it reads text alone.

    Args:
        space: The observation space; None where it is not known.
        model_path: The model's directory; None of one that is elsewhere, and reads text.
    """
    from rllib_gigpo.rl_modules.module_choice import language_module_class

    reads_images = language_module_class(model_path).reads_images
    if reads_images and _is_text_with_image(space):
        return
    parts = space.spaces if isinstance(space, spaces.Dict) else {"": space}
    unseen = sorted(name for name, part in parts.items() if isinstance(part, spaces.Box))
    if unseen:
        names = ", ".join(repr(name) for name in unseen if name)
        shows = f"the environment shows arrays{f' ({names})' if names else ''} in its observation space"
        if reads_images:
            raise ValueError(
                f"{shows}, {space}, but what a vision-language model sees is Dict(text=Text, image=Box(0, 255, "
                "(height, width, 3), uint8)). Wrap the environment"
            )
        where = "" if model_path is None else f" in {model_path}"
        raise ValueError(
            f"{shows}, but the model{where} reads text alone and would not see them. Have the environment "
            'show text, as with env_config={"observation": "text"} of the card games, or wrap it; or choose a '
            f"vision-language model of {', '.join(registry.rl_module_names()) or 'a kind that is registered'}"
        )


def _is_text_with_image(space: gym.Space | None) -> bool:
    """Whether observations are a dict of a text and an image; heights and widths may be anything."""
    if not isinstance(space, spaces.Dict) or set(space.spaces) != {TEXT, IMAGE}:
        return False
    text, image = space[TEXT], space[IMAGE]
    if not isinstance(text, spaces.Text) or not isinstance(image, spaces.Box):
        return False
    return image.dtype == np.uint8 and len(image.shape) == 3 and image.shape[2] == 3


def is_multi_agent(env: Any) -> bool | None:
    """Whether a config's `env` is a class of RLlib's `MultiAgentEnv`, or names one; None where it takes an environment
    to tell: for functions, and Gymnasium ids."""
    from ray.rllib.env.multi_agent_env import MultiAgentEnv

    found = environment_class(env)
    return None if found is None else issubclass(found, MultiAgentEnv)


def environment_class(env: Any) -> type[gym.Env] | None:
    """The environment's class, where a config's `env` is one or names one."""
    found: Any = env
    if isinstance(env, str):
        try:
            if env in registry.environment_names():
                found = registry.environment(env).load()
            elif _global_registry.contains(ENV_CREATOR, env):
                found = _global_registry.get(ENV_CREATOR, env)
            elif env not in gym.registry and "." in env:
                found = _imported(env)
        except (ImportError, ValueError):  # said where the environment is checked, or made
            return None
    return found if isinstance(found, type) and issubclass(found, gym.Env) else None


def _check_creator(env: Any, name: str) -> None:
    if not callable(env) or (isinstance(env, type) and not issubclass(env, gym.Env)):
        raise ValueError(
            f"{name} must be a registered name, a class path, a subclass of gymnasium.Env, or a function from an "
            "EnvContext to an environment."
        )


def _imported(path: str) -> Any:
    """What the class path names. Raises ValueError where there is nothing, or importing it fails."""
    module, _, name = path.rpartition(".")
    try:
        return getattr(import_module(module), name)
    except Exception as error:  # a module runs any code while it is imported
        hint = ""
        if isinstance(error, ModuleNotFoundError):
            hint = f" Modules are looked for among the installed packages and in {Path.cwd()}."
        elif isinstance(error, AttributeError) and _is_module(path):
            hint = f" {path} is a module: name a class or a function in it."
        raise ValueError(
            f"env={path!r} is no registered name, and as a class path it cannot be imported: "
            f"{type(error).__name__}: {error}.{hint}"
        ) from error


def _is_module(path: str) -> bool:
    """Of a path whose package can be imported."""
    try:
        return find_spec(path) is not None
    except (ImportError, ValueError):
        return False
