"""The environments of one runner, lent to one trajectory at a time, and the pool that holds them in its own process."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from typing import Any, Protocol

import gymnasium as gym

from rllib_gigpo.env_runners.environment_worker import EnvironmentDescription, checked, described, staying

logger = logging.getLogger(__name__)


class LentEnvironment(Protocol):
    """An environment that nobody else uses; a `gymnasium.Env` or RLlib's `MultiAgentEnv`, wherever it runs."""

    async def reset(self, *, seed: int, options: dict[str, Any]) -> Any:
        """What the environment's `reset` returns; raises what it raises, or why it could not be asked."""
        ...

    async def step(self, action: Any) -> Any:
        """What the environment's `step` returns; raises as `reset` does."""
        ...


class EnvironmentPool(ABC):
    """Lends environments.

    It stands where RLlib's env runner keeps its vector environment, so it carries that one's attributes.

    Args:
        num_envs: How many may be lent at once.
        description: What its environments are like.
    """

    def __init__(self, num_envs: int, description: EnvironmentDescription):
        self.num_envs = num_envs
        self.single_observation_space = self.observation_space = description.observation_space
        self.single_action_space = self.action_space = description.action_space
        self.is_multi_agent = description.possible_agents is not None
        self.possible_agents: list[Any] = description.possible_agents or []

    @property
    def unwrapped(self) -> EnvironmentPool:
        return self

    @abstractmethod
    async def acquire(self) -> LentEnvironment:
        """An environment that nobody else uses; give it back with `release` or `discard`. Raises why there is none."""

    @abstractmethod
    def release(self, env: LentEnvironment) -> None:
        """Gives back an environment that works."""

    @abstractmethod
    def discard(self, env: LentEnvironment) -> None:
        """Gives back an environment that failed: it is closed and never lent again."""

    @abstractmethod
    def close(self) -> None:
        """Closes the environments."""

    def take_counts(self) -> Counter[str]:
        """What was counted since the last call."""
        return Counter()


class InlineEnvironment:
    """A `LentEnvironment` that runs where it is called; nothing else goes on meanwhile."""

    def __init__(self, env: gym.Env):
        self.env = env

    async def reset(self, *, seed: int, options: dict[str, Any]) -> Any:
        with staying():
            return self.env.reset(seed=seed, options=options)

    async def step(self, action: Any) -> Any:
        with staying():
            return self.env.step(action)


class InlinePool(EnvironmentPool):
    """Holds environments in this process, created when first needed.

    Args:
        create: Makes one environment.
        num_envs: How many may be lent at once.

    Raises:
        TypeError: `create` does not return a `gymnasium.Env`.
    """

    def __init__(self, create: Callable[[], gym.Env], num_envs: int):
        self._create = create
        first = checked(create())
        self._idle: list[InlineEnvironment] = [InlineEnvironment(first)]
        super().__init__(num_envs, described(first))

    async def acquire(self) -> InlineEnvironment:
        return self._idle.pop() if self._idle else InlineEnvironment(checked(self._create()))

    def release(self, env: LentEnvironment) -> None:
        assert isinstance(env, InlineEnvironment)
        self._idle.append(env)

    def discard(self, env: LentEnvironment) -> None:
        assert isinstance(env, InlineEnvironment)
        try:
            env.env.close()
        except Exception:
            logger.warning("closing a failed environment failed as well", exc_info=True)

    def close(self) -> None:
        """Closes the idle environments."""
        while self._idle:
            self._idle.pop().env.close()
