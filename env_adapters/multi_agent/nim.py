"""Nim, a game of two that one of them wins: for training by self-play."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ray.rllib.env.multi_agent_env import MultiAgentEnv

from rllib_gigpo.env_adapters.generated_tasks import check_integer, task_of_reset, text_space
from rllib_gigpo.env_adapters.multi_agent.nim_rules import OPPONENT, PLAYER, SEATS, moves, nim_task, number_taken

_OPTIONS = {"most_stones": 20, "most_taken": 3, "max_invalid": 2, "max_steps": 60}


class Nim(MultiAgentEnv):
    """One pile of stones. "player" and "opponent" take 1 to `most_taken` in turn; who takes the last stone wins.

    The task decides how many stones there are and who begins. Both are shown the same and can do the same; the names
    are for whoever trains one against the other. `won` is of the player, in every info: so the success of a training
    is the player's share of wins.

    Observation of the agent whose turn it is: text, "Stones: 13". Action: text, "take 2". Any other text, "" included,
    and a number of stones that are not there, is invalid: nothing changes, the step counts, and it is the same agent's
    turn again. The agent that answers so more than `max_invalid` times on end loses: to wait would be a move, and the
    best one in a lost position.

    Reward: +1 for who wins, -1 for the other one, as soon as it is decided, which terminates for both; 0 before.
    `max_steps` truncates.

    Infos hold, for the agent concerned, `won`, `task_id`, `task_type`, `admissible_actions`; after an act also
    `is_action_valid`. What is shown is the state, so that the observation is the anchor.

    Args:
        config: The options below as a mapping, as RLlib gives them to an environment's class.
        most_stones: At the start, at least `most_taken` + 1.
        most_taken: In one move, at least 2.
        max_invalid: How many invalid actions on end an agent may give.
        max_steps: Acts of both, invalid ones included, after which an episode is truncated.

    Raises:
        ValueError: An option is unknown, or has a value that is not allowed.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 (gymnasium's own declaration)
    # Of the class too: so the mapping of a config is checked before an environment is made.
    possible_agents: list[str] = list(SEATS)  # noqa: RUF012 (as above; an instance has its own)

    def __init__(self, config: Mapping[str, Any] | None = None, **options: Any):
        given = {**dict(config or {}), **options}
        if unknown := sorted(set(given) - set(_OPTIONS)):
            raise ValueError(f"Nim got options {unknown}; known are {sorted(_OPTIONS)}")
        values = {**_OPTIONS, **given}
        check_integer("most_taken", values["most_taken"], lowest=2)
        check_integer("most_stones", values["most_stones"], lowest=values["most_taken"] + 1, highest=10_000)
        check_integer("max_invalid", values["max_invalid"], lowest=0)
        check_integer("max_steps", values["max_steps"], lowest=1)
        self.possible_agents = list(SEATS)
        self.agents = list(SEATS)
        super().__init__()
        # One space object for each agent: seeding the one must not seed the other.
        self.observation_spaces = {agent: text_space(32, min_length=1) for agent in SEATS}
        self.action_spaces = {agent: text_space(32) for agent in SEATS}
        self._options = values
        self._task = 0
        self._stones = 0
        self._turn: str | None = None
        self._steps = 0
        self._invalid = 0
        self._is_action_valid: dict[str, bool] = {}

    @property
    def stones(self) -> int:
        """How many are left."""
        return self._stones

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
        self._task = task_of_reset(options, self.np_random, environment="Nim")
        most_stones, most_taken = self._options["most_stones"], self._options["most_taken"]
        self._stones, self._turn = nim_task(self._task, most_stones=most_stones, most_taken=most_taken)
        self._steps = 0
        self._invalid = 0
        self._is_action_valid = {}
        return self._answers([self._turn], winner=None)

    def step(
        self, action_dict: Mapping[str, str]
    ) -> tuple[dict[str, str], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        """Carries out the move of the agent whose turn it is, or nothing.

        Raises:
            ValueError: The actions are not those of exactly that agent.
            TypeError: Its action is not a text.
            RuntimeError: The environment was never reset.
        """
        if self._turn is None:
            raise RuntimeError("Nim.step was called before reset")
        mover = self._turn
        if set(action_dict) != {mover}:
            raise ValueError(f"step got actions of {sorted(action_dict)}; it is the turn of {mover!r}, and of no other")
        move = action_dict[mover]
        if not isinstance(move, str):
            raise TypeError(
                f"action of {mover!r} is {move!r} of type {type(move).__name__}; Nim takes text, e.g. 'take 2'"
            )
        other = OPPONENT if mover == PLAYER else PLAYER
        is_valid = move in moves(self._stones, most_taken=self._options["most_taken"])
        if is_valid:
            self._stones -= number_taken(move)
            self._turn = other
        self._invalid = 0 if is_valid else self._invalid + 1
        self._is_action_valid[mover] = is_valid
        self._steps += 1

        gave_up = self._invalid > self._options["max_invalid"]
        winner = other if gave_up else mover if self._stones == 0 else None
        truncated = self._steps >= self._options["max_steps"] and winner is None
        # An agent whose first observation came with the end would be one that never acts.
        took_part = list(self._is_action_valid)
        observations, infos = self._answers(took_part if winner or truncated else [self._turn], winner=winner)
        rewards = {agent: 1.0 if agent == winner else -1.0 for agent in took_part} if winner else {mover: 0.0}
        return observations, rewards, {"__all__": winner is not None}, {"__all__": truncated}, infos

    def _answers(self, agents: list[str], *, winner: str | None) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
        """Observation and info of each of `agents`."""
        infos = {agent: self._info(agent) | {"won": winner == PLAYER} for agent in agents}
        return dict.fromkeys(agents, f"Stones: {self._stones}"), infos

    def _info(self, agent: str) -> dict[str, Any]:
        info = {
            "task_id": f"nim/{self._task}",
            "task_type": "nim",
            "admissible_actions": moves(self._stones, most_taken=self._options["most_taken"]),
        }
        return info | {"is_action_valid": self._is_action_valid[agent]} if agent in self._is_action_valid else info
