"""The environments of one runner: created when first needed, lent to one trajectory at a time, replaced when broken."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import gymnasium as gym
from ray.rllib.env.multi_agent_env import MultiAgentEnv

logger = logging.getLogger(__name__)


class EnvironmentPool:
    """Lends environments.

    It stands where RLlib's env runner keeps its vector environment, so it carries that one's attributes.

    Args:
        create: Makes one environment.
        num_envs: How many may be alive at once.

    Raises:
        TypeError: `create` does not return a `gymnasium.Env`.
    """

    def __init__(self, create: Callable[[], gym.Env], num_envs: int):
        self._create = create
        self.num_envs = num_envs
        first = self._checked(create())
        self._idle: list[gym.Env] = [first]
        self.single_observation_space = self.observation_space = first.observation_space
        self.single_action_space = self.action_space = first.action_space
        unwrapped: Any = first.unwrapped
        self.is_multi_agent = isinstance(unwrapped, MultiAgentEnv)
        self.possible_agents: list[Any] = list(unwrapped.possible_agents) if self.is_multi_agent else []

    @property
    def unwrapped(self) -> EnvironmentPool:
        return self

    def acquire(self) -> gym.Env:
        """An environment that nobody else uses; give it back with `release` or `discard`."""
        return self._idle.pop() if self._idle else self._checked(self._create())

    def release(self, env: gym.Env) -> None:
        """Gives back an environment that works."""
        self._idle.append(env)

    def discard(self, env: gym.Env) -> None:
        """Gives back an environment that failed: it is closed and never lent again."""
        try:
            env.close()
        except Exception:
            logger.warning("closing a failed environment failed as well", exc_info=True)

    def close(self) -> None:
        """Closes the idle environments."""
        while self._idle:
            self._idle.pop().close()

    @staticmethod
    def _checked(env: gym.Env) -> gym.Env:
        if not isinstance(env, gym.Env):
            raise TypeError(f"the environment creator returned a {type(env).__name__}; it must return a gymnasium.Env")
        return env
