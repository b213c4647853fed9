"""One environment, whether of one agent or of several, as what it shows agent by agent."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

from rllib_gigpo.env_runners.multi_agent_answers import check_multi_agent_reset, check_multi_agent_step

SINGLE_AGENT = ""


@dataclass(frozen=True)
class Moment:
    """What a `reset` or a `step` answered, by agent; the only agent of a `gymnasium.Env` is "".

    Attributes:
        observations: Of the agents that act next; of the only agent, always.
        infos: Of each agent, infos for all included.
        rewards: As the environment gave them; none at a reset.
        terminated: Whether the episode has ended, for all agents.
        truncated: Whether it was cut off.
    """

    observations: dict[Any, Any]
    infos: dict[Any, dict[str, Any]]
    rewards: dict[Any, Any]
    terminated: bool = False
    truncated: bool = False

    @property
    def ended(self) -> bool:
        return self.terminated or self.truncated

    def values(self, key: str) -> list[Any]:
        """What the infos hold under `key`, for the agents that have it."""
        return [info[key] for info in self.infos.values() if key in info]

    def start(self) -> str:
        """The observations as text, equal where they are: texts as they are, arrays by shape, type and content."""
        shown = {repr(agent): _comparable(observation) for agent, observation in self.observations.items()}
        return json.dumps(shown, sort_keys=True, ensure_ascii=False)


class Player:
    """Plays an environment by its contract.

    Args:
        env: A `gymnasium.Env`, or an RLlib `MultiAgentEnv`.

    Raises:
        TypeError: It is neither.
    """

    def __init__(self, env: Any):
        if not isinstance(env, gym.Env):
            raise TypeError(f"the environment is a {type(env).__name__}; it must be a gymnasium.Env")
        self.env = env
        self.is_multi_agent = is_multi_agent(env)
        unwrapped: Any = env.unwrapped
        self._agents: list[Any] = list(unwrapped.possible_agents) if self.is_multi_agent else [SINGLE_AGENT]
        self._ended: set[Any] = set()

    def reset(self, task: Any, seed: int) -> Moment:
        """Starts an episode. Raises EnvironmentAnswerError where the answer is malformed, and what the environment
        raises."""
        answer = self.env.reset(seed=seed, options={"task": task})
        self._ended = set()
        if self.is_multi_agent:
            start = check_multi_agent_reset(answer, self._agents)
            return Moment(start.observations, start.infos, {})
        observation, info = _parts("reset", answer, ("observation", "info"))
        return Moment({SINGLE_AGENT: observation}, {SINGLE_AGENT: _info("reset", info)}, {})

    def step(self, actions: Mapping[Any, str]) -> Moment:
        """Takes the agents' actions. Raises as `reset` does."""
        if self.is_multi_agent:
            return self._step_of_several(actions)
        answer = self.env.step(actions[SINGLE_AGENT])
        observation, reward, terminated, truncated, info = _parts(
            "step", answer, ("observation", "reward", "terminated", "truncated", "info")
        )
        for name, value in (("terminated", terminated), ("truncated", truncated)):
            if not isinstance(value, bool | np.bool_):
                raise TypeError(f"step() returned {name}={value!r}; it must be a bool")
        return Moment(
            {SINGLE_AGENT: observation},
            {SINGLE_AGENT: _info("step", info)},
            {SINGLE_AGENT: reward},
            bool(terminated),
            bool(truncated),
        )

    def spaces(self) -> dict[str, tuple[gym.Space | None, gym.Space | None]]:
        """The (observation space, action space) of each agent, None where there is none; for messages by its name."""
        if not self.is_multi_agent:
            return {SINGLE_AGENT: (_attribute(self.env, "observation_space"), _attribute(self.env, "action_space"))}
        env = self.env.unwrapped
        found = {}
        for agent in self._agents:
            pair = []
            for kind in ("observation", "action"):
                by_agent = getattr(env, f"{kind}_spaces", None) or {}
                common = getattr(env, f"{kind}_space", None)
                if isinstance(common, gym.spaces.Dict) and agent in common.spaces:
                    common = common[agent]
                pair.append(by_agent.get(agent, common))
            found[agent] = (pair[0], pair[1])
        return found

    def _step_of_several(self, actions: Mapping[Any, str]) -> Moment:
        step = check_multi_agent_step(self.env.step(dict(actions)), self._agents, self._ended)
        self._ended |= step.terminated | step.truncated
        return Moment(step.observations, step.infos, step.rewards, step.all_terminated, step.all_truncated)


def is_multi_agent(env: gym.Env) -> bool:
    """Whether it is RLlib's `MultiAgentEnv`; without importing RLlib where nothing else has."""
    module = sys.modules.get("ray.rllib.env.multi_agent_env")
    return module is not None and isinstance(env.unwrapped, module.MultiAgentEnv)


def agent_prefix(agent: Any) -> str:
    """What goes before a message about an agent; nothing for the only one."""
    return "" if agent == SINGLE_AGENT else f"agent {agent!r}: "


def _attribute(env: gym.Env, name: str) -> gym.Space | None:
    return getattr(env, name, None)


def _parts(method: str, answer: Any, names: tuple[str, ...]) -> tuple[Any, ...]:
    if not (isinstance(answer, tuple) and len(answer) == len(names)):
        raise TypeError(f"{method}() returned {type(answer).__name__} {answer!r}; it must return ({', '.join(names)})")
    return answer


def _info(method: str, info: Any) -> dict[str, Any]:
    if not isinstance(info, dict):
        raise TypeError(f"{method}() returned the info {info!r}; it must be a dict")
    return info


def _comparable(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _comparable(part) for key, part in value.items()}
    if isinstance(value, np.ndarray):
        digest = hashlib.blake2b(np.ascontiguousarray(value).tobytes(), digest_size=8).hexdigest()
        return f"{value.dtype}{list(value.shape)} {digest}"
    return value if isinstance(value, str) else repr(value)
