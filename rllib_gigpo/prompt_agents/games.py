"""An environment as a prompted agent plays it: of one agent or of several, it answers alike."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

from rllib_gigpo.env_runners.environment_answers import EnvironmentAnswerError, check_reset, check_step
from rllib_gigpo.env_runners.environment_pool import EnvironmentPool, LentEnvironment
from rllib_gigpo.env_runners.multi_agent_answers import (
    MultiAgentStart,
    MultiAgentStep,
    check_multi_agent_reset,
    check_multi_agent_step,
)

SOLE_AGENT = "agent"


class Game(Protocol):
    """One environment, for one trial after another.

    Attributes:
        is_multi_agent: Whether the environment names its agents; else there is SOLE_AGENT.
    """

    is_multi_agent: bool

    async def start(self, seed: int, task: Any) -> MultiAgentStart:
        """Resets it. Raises what the environment raises, or EnvironmentAnswerError."""
        ...

    async def step(self, actions: Mapping[str, str]) -> MultiAgentStep:
        """Takes the actions of the agents that were shown something last. Raises as `start`."""
        ...


def game_of(pool: EnvironmentPool, env: LentEnvironment) -> Game:
    """The game of an environment of `pool`."""
    return _SeveralAgents(env, pool.possible_agents) if pool.is_multi_agent else _OneAgent(env)


class _OneAgent:
    """A `gymnasium.Env`, as a game of one agent."""

    is_multi_agent = False

    def __init__(self, env: LentEnvironment):
        self._env = env

    async def start(self, seed: int, task: Any) -> MultiAgentStart:
        observation, info = check_reset(await self._env.reset(seed=seed, options={"task": task}))
        return MultiAgentStart({SOLE_AGENT: observation}, {SOLE_AGENT: info})

    async def step(self, actions: Mapping[str, str]) -> MultiAgentStep:
        answer = check_step(await self._env.step(actions[SOLE_AGENT]))
        observation, reward, terminated, truncated, info = answer
        return MultiAgentStep(
            observations={SOLE_AGENT: observation},
            rewards={SOLE_AGENT: reward},
            terminated=frozenset(),
            truncated=frozenset(),
            all_terminated=terminated,
            all_truncated=truncated,
            infos={SOLE_AGENT: info},
        )


class _SeveralAgents:
    """A `MultiAgentEnv`; the same model plays every agent, each with a history of its own."""

    is_multi_agent = True

    def __init__(self, env: LentEnvironment, possible_agents: Collection[str]):
        self._env = env
        self._possible_agents = possible_agents
        self._ended: set[str] = set()

    async def start(self, seed: int, task: Any) -> MultiAgentStart:
        self._ended = set()
        answer = await self._env.reset(seed=seed, options={"task": task})
        return check_multi_agent_reset(answer, self._possible_agents)

    async def step(self, actions: Mapping[str, str]) -> MultiAgentStep:
        step = check_multi_agent_step(await self._env.step(dict(actions)), self._possible_agents, self._ended)
        self._ended |= step.terminated | step.truncated
        acting = {agent: shown for agent, shown in step.observations.items() if agent not in self._ended}
        all_ended = self._ended >= set(self._possible_agents)
        if not (acting or all_ended or step.all_terminated or step.all_truncated):
            raise EnvironmentAnswerError("step() returned no observations and no ending, so nobody can act")
        return step._replace(observations=acting, all_terminated=step.all_terminated or all_ended)
