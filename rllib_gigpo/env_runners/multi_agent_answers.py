"""Checks what an RLlib `MultiAgentEnv` answers, before it enters an episode."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np

from rllib_gigpo.env_runners.environment_answers import (
    EnvironmentAnswerError,
    check_info,
    check_observation,
    check_reward,
    describe,
)

ALL_AGENTS = "__all__"
COMMON_INFO = "__common__"


class MultiAgentStart(NamedTuple):
    """What a `reset` showed, by agent; the agents of `observations` act next."""

    observations: dict[str, Any]
    infos: dict[str, dict[str, Any]]  # one for each of the observations, the common info included


class MultiAgentStep(NamedTuple):
    """What a `step` did, by agent. `terminated` and `truncated` hold the agents whose episode has ended."""

    observations: dict[str, Any]
    rewards: dict[str, float]
    terminated: frozenset[str]
    truncated: frozenset[str]
    all_terminated: bool
    all_truncated: bool
    infos: dict[str, dict[str, Any]]  # one for every possible agent, the common info included


def check_multi_agent_reset(answer: Any, possible_agents: Collection[str]) -> MultiAgentStart:
    """Checks the (observations, infos) of a `reset`. Raises EnvironmentAnswerError."""
    if not (isinstance(answer, tuple) and len(answer) == 2):
        raise EnvironmentAnswerError(f"reset() returned {describe(answer)}; it must return (observations, infos)")
    observations, infos = answer
    _check_dict("reset", "observations", observations, possible_agents)
    if not observations:
        raise EnvironmentAnswerError("reset() returned observations of no agent, so nobody can act")
    for observation in observations.values():
        check_observation("reset", observation)
    common = _check_infos("reset", infos, possible_agents)
    return MultiAgentStart(dict(observations), {agent: {**common, **infos.get(agent, {})} for agent in observations})


def check_multi_agent_step(answer: Any, possible_agents: Collection[str], ended: Collection[str]) -> MultiAgentStep:
    """Checks the (observations, rewards, terminateds, truncateds, infos) of a `step`.

    Args:
        answer: What it returned.
        possible_agents: Every agent that there may be.
        ended: Those whose episode had ended before.

    Raises:
        EnvironmentAnswerError: It is nothing that RLlib's API allows.
    """
    if not (isinstance(answer, tuple) and len(answer) == 5):
        raise EnvironmentAnswerError(
            f"step() returned {describe(answer)}; it must return (observations, rewards, terminateds, truncateds, "
            "infos), each a dict by agent"
        )
    observations, rewards, terminateds, truncateds, infos = answer
    _check_dict("step", "observations", observations, possible_agents)
    for agent, observation in observations.items():
        check_observation("step", observation)
        if agent in ended:
            raise EnvironmentAnswerError(f"step() returned an observation of agent {agent!r}, whose episode had ended")
    _check_dict("step", "rewards", rewards, possible_agents)
    for reward in rewards.values():
        check_reward(reward)
    for name, flags in (("terminateds", terminateds), ("truncateds", truncateds)):
        _check_dict("step", name, flags, {*possible_agents, ALL_AGENTS})
        for agent, value in flags.items():
            if not isinstance(value, bool | np.bool_):
                raise EnvironmentAnswerError(f"step() returned {name}[{agent!r}]={value!r}; it must be a bool")
    if ALL_AGENTS not in terminateds:
        raise EnvironmentAnswerError(f"step() returned terminateds without {ALL_AGENTS!r}; it must be there")
    common = _check_infos("step", infos, possible_agents)
    return MultiAgentStep(
        observations=dict(observations),
        rewards={agent: float(reward) for agent, reward in rewards.items()},
        terminated=_agents_with(terminateds),
        truncated=_agents_with(truncateds),
        all_terminated=bool(terminateds[ALL_AGENTS]),
        all_truncated=bool(truncateds.get(ALL_AGENTS, False)),
        infos={agent: {**common, **infos.get(agent, {})} for agent in possible_agents},
    )


def _check_infos(method: str, infos: Any, possible_agents: Collection[str]) -> dict[str, Any]:
    """The info that is common to all agents."""
    _check_dict(method, "infos", infos, {*possible_agents, COMMON_INFO})
    for info in infos.values():
        check_info(method, info)
    return dict(infos.get(COMMON_INFO, {}))


def _check_dict(method: str, name: str, value: Any, keys: Collection[str]) -> None:
    if not isinstance(value, dict):
        raise EnvironmentAnswerError(f"{method}() returned {name} {describe(value)}; it must be a dict by agent")
    for key in value:
        if key not in keys:
            raise EnvironmentAnswerError(
                f"{method}() returned {name} with the key {key!r}, which is none of {sorted(keys)}"
            )


def _agents_with(flags: dict[str, Any]) -> frozenset[str]:
    return frozenset(agent for agent, value in flags.items() if value and agent != ALL_AGENTS)
