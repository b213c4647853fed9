"""EZPoints of Gym Cards as text: write a formula of two cards that equals 12."""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Mapping
from typing import Any, Literal, get_args

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from rllib_gigpo.env_adapters.gym_cards.arithmetic import evaluate
from rllib_gigpo.env_adapters.gym_cards.hands import TARGET, Hand, hand_of_task

RewardScheme = Literal["verl-agent", "rl4vlm"]

NUMBERS = tuple(str(number) for number in range(1, 11))
OPERATORS = ("+", "*")
END = "="
ACTIONS = (*NUMBERS, *OPERATORS, END)

# A formula that has grown beyond this ends the episode at the next step.
MAX_FORMULA_PARTS = 5
SUCCESS_REWARD = 10.0
_TASKS = 2**31


class EZPoints(gym.Env[str, str]):
    """Two cards, one part of a formula a step, "=" at the end; won if the formula equals 12 and uses both numbers.

    Observation: text, "Numbers: 10 2. Formula: 10 +", or "... Formula: empty" at the start.
    Action: text, one of "1" ... "10", "+", "*", "=". A number that is not on a card, or was used already, is invalid.
    Operators are never checked, and parts are joined before they are computed ("1" after "1" reads 11).
    Any other text, "" included, is a no-op: invalid, the formula stays as it is, the step counts.

    "=" terminates. A step on a formula of more than 5 parts truncates, whatever its action, and so does `max_steps`.

    Rewards:
        "verl-agent" (Feng et al. 2025, GiGPO): +10 for a win, 0 for everything else.
        "rl4vlm" (Zhai et al. 2024): +10 for a win; -1 for an invalid action, a lost game or a formula that is too
            long; 0 otherwise. An invalid number also takes up a part of the formula, a blank, shown as "_".

    Infos hold `won`, `task_id`, `task_type`, `admissible_actions` (the actions that are not invalid), `Cards`,
    `Numbers` and `Formula`, and after a step `is_action_valid`.

    Args:
        max_steps: Steps after which an episode is truncated.
        reward_scheme: "verl-agent" or "rl4vlm".

    Raises:
        ValueError: An option has a value that is not allowed.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 (gymnasium's own declaration)

    def __init__(self, *, max_steps: int = 8, reward_scheme: RewardScheme = "verl-agent"):
        if not isinstance(max_steps, int) or isinstance(max_steps, bool) or max_steps < 1:
            raise ValueError(f"max_steps is {max_steps!r}; it must be an integer of at least 1")
        if reward_scheme not in get_args(RewardScheme):
            raise ValueError(f"reward_scheme is {reward_scheme!r}; allowed are {list(get_args(RewardScheme))}")
        self.observation_space = spaces.Text(min_length=1, max_length=128, charset=string.printable)
        self.action_space = spaces.Text(min_length=0, max_length=32, charset=string.printable)
        self._max_steps = max_steps
        self._rl4vlm = reward_scheme == "rl4vlm"
        self._task = 0
        self._hand: Hand | None = None
        self._formula: list[str] = []
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Deals the hand of `options["task"]`, an integer of at least 0, or of a task drawn from the seed.

        Raises:
            TypeError: The task is not an integer.
            ValueError: The task is negative, or `options` has another key.
        """
        super().reset(seed=seed)
        options = options or {}
        if unknown := sorted(set(options) - {"task"}):
            raise ValueError(f"reset got options {unknown}; the only known one is 'task'")
        task = options.get("task")
        self._task = int(self.np_random.integers(_TASKS)) if task is None else _checked_task(task)
        self._hand = hand_of_task(self._task)
        self._formula = []
        self._steps = 0
        return self._observation(), self._info(won=False)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Adds one part to the formula, or ends it.

        Raises:
            TypeError: The action is not a text.
            RuntimeError: The environment was never reset.
        """
        if not isinstance(action, str):
            raise TypeError(
                f"action is {action!r} of type {type(action).__name__}; EZPoints takes text, e.g. '10' or '+'"
            )
        too_long = len(self._formula) > MAX_FORMULA_PARTS
        is_valid = action in self._admissible_actions()
        ended = action == END and not too_long
        won = ended and self._makes_target()

        if not too_long and not ended:
            if is_valid:
                self._formula.append(action)
            elif action in NUMBERS and self._rl4vlm:
                self._formula.append(" ")

        self._steps += 1
        truncated = too_long or (self._steps >= self._max_steps and not ended)
        lost_or_invalid = too_long or not is_valid or (ended and not won)
        reward = SUCCESS_REWARD if won else -1.0 if self._rl4vlm and lost_or_invalid else 0.0
        return self._observation(), reward, ended, truncated, {**self._info(won=won), "is_action_valid": is_valid}

    def _makes_target(self) -> bool:
        return not self._unused_numbers() and evaluate("".join(self._formula)) == TARGET

    def _admissible_actions(self) -> list[str]:
        return [*dict.fromkeys(self._unused_numbers()), *OPERATORS, END]

    def _unused_numbers(self) -> list[str]:
        """The numbers of the hand that the formula does not hold yet, in the hand's order."""
        used = Counter(self._formula)
        unused = []
        for number in map(str, self._dealt().numbers):
            if used[number]:
                used[number] -= 1
            else:
                unused.append(number)
        return unused

    def _observation(self) -> str:
        first, second = self._dealt().numbers
        formula = " ".join("_" if part == " " else part for part in self._formula)
        return f"Numbers: {first} {second}. Formula: {formula or 'empty'}"

    def _info(self, *, won: bool) -> dict[str, Any]:
        hand = self._dealt()
        return {
            "won": won,
            "task_id": f"ezpoints/{self._task}",
            "task_type": "ezpoints",
            "admissible_actions": self._admissible_actions(),
            "Cards": list(hand.cards),
            "Numbers": list(hand.numbers),
            "Formula": list(self._formula),
        }

    def _dealt(self) -> Hand:
        if self._hand is None:
            raise RuntimeError("EZPoints.step was called before reset")
        return self._hand


def _checked_task(task: Any) -> int:
    if isinstance(task, bool) or not isinstance(task, int | np.integer):
        raise TypeError(f"task is {task!r} of type {type(task).__name__}; EZPoints takes an integer of at least 0")
    if task < 0:
        raise ValueError(f"task is {task}; EZPoints takes an integer of at least 0")
    return int(task)
