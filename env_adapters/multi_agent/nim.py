"""Nim, a game of two that one of them wins: for training by self-play."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rllib_gigpo.env_adapters.generated_tasks import check_integer
from rllib_gigpo.env_adapters.multi_agent.nim_rules import OPPONENT, PLAYER, SEATS, moves, nim_task, number_taken
from rllib_gigpo.env_adapters.multi_agent.turn_taking import TurnTakingEnv, options_of

_OPTIONS = {"most_stones": 20, "most_taken": 3, "max_invalid": 2, "max_steps": 60}


class Nim(TurnTakingEnv):
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

    game_name = "Nim"
    example_action = "take 2"
    # Of the class too: so the mapping of a config is checked before an environment is made.
    possible_agents: list[str] = list(SEATS)  # noqa: RUF012 (an instance has its own)

    def __init__(self, config: Mapping[str, Any] | None = None, **options: Any):
        values = options_of(self.game_name, _OPTIONS, config, options)
        check_integer("most_taken", values["most_taken"], lowest=2)
        check_integer("most_stones", values["most_stones"], lowest=values["most_taken"] + 1, highest=10_000)
        check_integer("max_invalid", values["max_invalid"], lowest=0)
        super().__init__(SEATS, max_steps=values["max_steps"], longest_observation=32, longest_action=32)
        self._most_stones, self._most_taken = values["most_stones"], values["most_taken"]
        self._max_invalid = values["max_invalid"]
        self._stones = 0
        self._turn = PLAYER
        self._invalid = 0
        self._winner: str | None = None

    @property
    def stones(self) -> int:
        """How many are left."""
        return self._stones

    def _set_up(self, task: int) -> None:
        self._stones, self._turn = nim_task(task, most_stones=self._most_stones, most_taken=self._most_taken)
        self._invalid = 0
        self._winner = None

    def _mover(self) -> str:
        return self._turn

    def _act(self, action: str) -> bool:
        mover = self._turn
        other = OPPONENT if mover == PLAYER else PLAYER
        is_valid = action in self._moves()
        if is_valid:
            self._stones -= number_taken(action)
            self._turn = other
        self._invalid = 0 if is_valid else self._invalid + 1
        if self._invalid > self._max_invalid:
            self._winner = other
        elif self._stones == 0:
            self._winner = mover
        return is_valid

    def _final_rewards(self) -> Mapping[str, float] | None:
        return None if self._winner is None else {seat: 1.0 if seat == self._winner else -1.0 for seat in SEATS}

    def _observation(self, agent: str) -> str:
        return f"Stones: {self._stones}"

    def _info(self, agent: str) -> dict[str, Any]:
        return {
            "won": self._winner == PLAYER,
            "task_id": f"nim/{self._task}",
            "task_type": "nim",
            "admissible_actions": self._moves(),
        }

    def _moves(self) -> list[str]:
        return moves(self._stones, most_taken=self._most_taken)
