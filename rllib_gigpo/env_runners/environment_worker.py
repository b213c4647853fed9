"""An environment worker: a process that hosts environments and answers an env runner's calls to them.

It imports neither Ray nor torch, unless an environment does: it is up soon, and takes tens of megabytes instead of
hundreds.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec

from rllib_gigpo.failures import failure_of

logger = logging.getLogger(__name__)

# How long a worker may go on, to close its environments, once its runner has hung up or is gone.
GRACE_S = 5.0


@dataclass(frozen=True)
class CreatorContext:
    """What RLlib's `EnvContext` is made from; that class itself would bring torch into every worker."""

    env_config: dict[str, Any]
    worker_index: int
    num_workers: int


@dataclass(frozen=True)
class EnvironmentDescription:
    """What a runner asks of an environment that it does not hold.

    Attributes:
        observation_space, action_space: The environment's.
        possible_agents: Of RLlib's `MultiAgentEnv`; None where it is none.
    """

    observation_space: gym.Space
    action_space: gym.Space
    possible_agents: list[Any] | None


class _Context(dict):
    """Stands in for RLlib's `EnvContext`: the same dict with the same attributes."""

    def __init__(self, context: CreatorContext):
        super().__init__(context.env_config)
        self.worker_index, self.num_workers = context.worker_index, context.num_workers
        self.vector_index, self.remote, self.recreated_worker = 0, False, False


def checked(env: Any) -> gym.Env:
    """Raises TypeError unless a creator returned an environment."""
    if not isinstance(env, gym.Env):
        raise TypeError(f"the environment creator returned a {type(env).__name__}; it must return a gymnasium.Env")
    return env


def described(env: gym.Env) -> EnvironmentDescription:
    """What a runner asks of `env`. Raises TypeError where it has no spaces, or takes no texts."""
    # Where nobody has imported RLlib, no environment is one of its own.
    rllib = sys.modules.get("ray.rllib.env.multi_agent_env")
    unwrapped: Any = env.unwrapped
    several = rllib is not None and isinstance(unwrapped, rllib.MultiAgentEnv)
    agents = list(unwrapped.possible_agents) if several else None
    for name in ("observation_space", "action_space"):
        if not hasattr(env, name):
            raise TypeError(
                f"environment {type(env).__name__} has no {name}: set it in __init__, such as "
                f"self.{name} = gymnasium.spaces.Text(1000, charset=frozenset(string.printable))"
            )
    if agents is None and not isinstance(env.action_space, gym.spaces.Text):
        raise TypeError(
            f"environment {type(env).__name__} has action_space={env.action_space}; an action is the text that a model "
            "answered: declare gymnasium.spaces.Text(1000, charset=frozenset(string.printable)), and turn it into a "
            "move in step()"
        )
    return EnvironmentDescription(env.observation_space, env.action_space, agents)


@contextmanager
def staying() -> Iterator[None]:
    """Raises RuntimeError where an environment would end the process that hosts it, and with it all that runs there."""
    try:
        yield
    except SystemExit as error:
        raise RuntimeError(f"the environment called sys.exit({error.code!r})") from error


def create_environment(create: Callable[[Any], gym.Env], context: CreatorContext) -> gym.Env:
    """Calls a creator that takes an `EnvContext`. Raises TypeError where that does not take the options."""
    rllib = sys.modules.get("ray.rllib.env.env_context")
    try:
        with staying():
            return create(_Context(context) if rllib is None else rllib.EnvContext(**vars(context)))
    except TypeError as error:
        raise TypeError(
            f"the environment cannot be made with env_config={context.env_config}: {error}. A class or a function that "
            "is given by its path gets env_config as its only argument; a registered environment, its keys as keyword "
            "arguments."
        ) from error


def make_registered(spec: EnvSpec, env_config: Mapping[str, Any]) -> gym.Env:
    """The environment of a specification of Gymnasium's registry; here, since other modules would bring Ray along."""
    return gym.make(spec, **env_config)


class EnvironmentHost:
    """The environments of a worker, by key. Its public methods are what a runner may call."""

    def __init__(self) -> None:
        self._envs: dict[int, gym.Env] = {}

    def make(self, key: int, create: Callable[[], gym.Env]) -> EnvironmentDescription:
        """Makes an environment."""
        env = checked(create())
        self._envs[key] = env
        return described(env)

    def reset(self, key: int, seed: int, options: dict[str, Any]) -> Any:
        return self._envs[key].reset(seed=seed, options=options)

    def step(self, key: int, action: Any) -> Any:
        return self._envs[key].step(action)

    def close(self, key: int) -> None:
        """Closes an environment and forgets it."""
        self._envs.pop(key).close()

    def close_all(self) -> None:
        for env in self._envs.values():
            try:
                env.close()
            except Exception:
                logger.warning("closing an environment failed", exc_info=True)


def main(fd: int) -> None:
    """Answers calls (method, arguments) that come through the socket `fd`, one at a time, until it is hung up."""
    os.set_inheritable(fd, False)  # a process that an environment starts must not keep the runner waiting
    threading.Thread(target=_end_when_hung_up, args=(fd,), daemon=True).start()
    connection, host = Connection(fd), EnvironmentHost()
    while True:
        try:
            _send(connection, _answer(connection, host))
        except (EOFError, ConnectionError):
            break
    host.close_all()


def _answer(connection: Connection, host: EnvironmentHost) -> Any:
    try:
        method, arguments = connection.recv()
    except (EOFError, ConnectionError):
        raise
    except Exception as error:  # what was sent cannot be unpickled: a module is missing here, or raises when imported
        return failure_of(error)
    try:
        with staying():
            return getattr(host, method)(*arguments)
    except Exception as error:
        return failure_of(error)


def _send(connection: Connection, answer: Any) -> None:
    try:
        connection.send(answer)
    except ConnectionError:
        raise
    except Exception as error:  # the answer cannot be pickled; nothing of it has been sent
        connection.send(failure_of(error))


def _end_when_hung_up(fd: int) -> None:
    """Ends this process, and those that its environments started, where a hung environment would outlive its runner."""
    poller = select.poll()
    poller.register(fd, 0)  # nothing but the other end's death
    poller.poll()
    time.sleep(GRACE_S)
    os.killpg(0, signal.SIGKILL)
