"""What games share in which exactly one of several agents acts at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ray.rllib.env.multi_agent_env import MultiAgentEnv

from rllib_gigpo.env_adapters.generated_tasks import check_integer, task_of_reset, text_space


def options_of(game: str, defaults: Mapping[str, Any], *given: Mapping[str, Any] | None) -> dict[str, Any]:
    """The options of a game: `defaults`, changed by what is given, the last mapping on top.

    Raises:
        ValueError: One is not among `defaults`.
    """
    options = dict(defaults)
    for mapping in given:
        options.update(mapping or {})
    if unknown := sorted(set(options) - set(defaults)):
        raise ValueError(f"{game} got options {unknown}; known are {sorted(defaults)}")
    return options


class TurnTakingEnv(MultiAgentEnv, ABC):
    """A game in which exactly one agent is observed and acts at a time; the task alone decides how it starts.

    The observations of a step are those of the agent that acts next, rewards those of the agent that acted. The last
    step has an observation, a reward and an info for every agent that has acted: one whose first observation came with
    the end would be one that never acts. So an agent's last info says of its own last action whether it was valid.

    Args:
        agents: All there are.
        max_steps: Acts of all together, after which an episode is truncated.
        longest_observation, longest_action: In characters.

    Raises:
        ValueError: `max_steps` is no integer of at least 1.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 (gymnasium's own declaration)
    game_name: ClassVar[str]  # as it is registered, for messages
    example_action: ClassVar[str]

    def __init__(self, agents: Sequence[str], *, max_steps: int, longest_observation: int, longest_action: int):
        check_integer("max_steps", max_steps, lowest=1)
        self.possible_agents = list(agents)
        self.agents = list(agents)
        super().__init__()
        # One space object for each agent: seeding the one must not seed the other.
        self.observation_spaces = {agent: text_space(longest_observation) for agent in agents}
        self.action_spaces = {agent: text_space(longest_action) for agent in agents}
        self._max_steps = max_steps
        self._task: int | None = None
        self._steps = 0
        self._is_action_valid: dict[str, bool] = {}

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
        """Sets up `options["task"]`, an integer of at least 0, or a task drawn from the seed.

        Returns:
            Observation and info of the agent that begins.

        Raises:
            TypeError: The task is not an integer.
            ValueError: The task is negative, or `options` has another key.
        """
        super().reset(seed=seed)
        self._task = task_of_reset(options, self.np_random, environment=self.game_name)
        self._steps = 0
        self._is_action_valid = {}
        self._set_up(self._task)
        return self._answers([self._mover()])

    def step(
        self, action_dict: Mapping[str, str]
    ) -> tuple[dict[str, str], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        """Has the agent act whose turn it is.

        Raises:
            ValueError: The actions are not those of exactly that agent.
            TypeError: Its action is not a text.
            RuntimeError: The environment was never reset.
        """
        if self._task is None:
            raise RuntimeError(f"{type(self).__name__}.step was called before reset")
        mover = self._mover()
        self._is_action_valid[mover] = self._act(self._action_of(mover, action_dict))
        self._steps += 1

        final_rewards = self._final_rewards()
        terminated = final_rewards is not None
        truncated = self._steps >= self._max_steps and not terminated
        over = terminated or truncated
        observations, infos = self._answers(list(self._is_action_valid) if over else [self._mover()])
        rewards = {agent: (final_rewards or {}).get(agent, 0.0) for agent in (observations if over else [mover])}
        return observations, rewards, {"__all__": terminated}, {"__all__": truncated}, infos

    @abstractmethod
    def _set_up(self, task: int) -> None:
        """Makes the game of `task`, at its start."""

    @abstractmethod
    def _mover(self) -> str:
        """The agent whose turn it is."""

    @abstractmethod
    def _act(self, action: str) -> bool:
        """Carries out the action of the agent whose turn it is, or nothing; whether it was valid."""

    @abstractmethod
    def _final_rewards(self) -> Mapping[str, float] | None:
        """The reward of every agent where the game is over, None where it is not; called once after each act."""

    @abstractmethod
    def _observation(self, agent: str) -> str:
        """What the agent is shown now."""

    @abstractmethod
    def _info(self, agent: str) -> dict[str, Any]:
        """The info for the agent now, without `is_action_valid`."""

    def _action_of(self, mover: str, action_dict: Mapping[str, str]) -> str:
        if set(action_dict) != {mover}:
            raise ValueError(f"step got actions of {sorted(action_dict)}; it is the turn of {mover!r}, and of no other")
        action = action_dict[mover]
        if not isinstance(action, str):
            raise TypeError(
                f"action of {mover!r} is {action!r} of type {type(action).__name__}; {self.game_name} takes text, "
                f"e.g. {self.example_action!r}"
            )
        return action

    def _answers(self, agents: Sequence[str]) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
        """Observation and info of each of `agents`."""
        acted = {agent: {"is_action_valid": is_valid} for agent, is_valid in self._is_action_valid.items()}
        infos = {agent: {**self._info(agent), **acted.get(agent, {})} for agent in agents}
        return {agent: self._observation(agent) for agent in agents}, infos
