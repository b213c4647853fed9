"""What EZPoints and Points24 share: a formula is written part by part and then has to equal a target."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from typing import Any, ClassVar

import numpy as np

from rllib_gigpo.env_adapters.gym_cards.arithmetic import evaluate
from rllib_gigpo.env_adapters.gym_cards.card_env import CardEnv, RewardScheme, check_reward_scheme
from rllib_gigpo.env_adapters.gym_cards.drawing import formula_table
from rllib_gigpo.env_adapters.gym_cards.hands import Hand
from rllib_gigpo.env_adapters.picture_env import ObservationMode

END = "="
SUCCESS_REWARD = 10.0


class FormulaGame(CardEnv):
    """A hand of cards, one part of a formula a step, "=" at the end; won if the formula equals the target and holds
    each number of the hand once.

    A number that is not on a card, or was used already, is invalid. Operators are never checked, and parts are joined
    before they are computed ("1" after "1" reads 11). Any text that is no part, "" included, is a no-op: invalid, the
    formula stays as it is, the step counts.

    "=" terminates. A step on a formula of more than `max_formula_parts` truncates, whatever its action, and so does
    `max_steps`.
    """

    name: ClassVar[str]  # in task ids
    target: ClassVar[int]
    operators: ClassVar[tuple[str, ...]]
    max_formula_parts: ClassVar[int]

    def __init__(
        self,
        *,
        max_steps: int,
        reward_scheme: RewardScheme,
        observation: ObservationMode,
        image_size: int,
        render_mode: str | None,
        highest_number: int,
        max_length: int,
    ):
        super().__init__(
            max_steps=max_steps,
            observation=observation,
            image_size=image_size,
            render_mode=render_mode,
            max_length=max_length,
        )
        check_reward_scheme(reward_scheme)
        self._rl4vlm = reward_scheme == "rl4vlm"
        self._number_actions = frozenset(map(str, range(1, highest_number + 1)))
        self._hand: Hand | None = None
        self._formula: list[str] = []
        self._won = False

    @abstractmethod
    def _deal(self, task: int) -> Hand:
        """The hand of a task."""

    def _set_up(self, task: int) -> None:
        self._hand = self._deal(task)
        self._formula = []
        self._won = False

    def step(self, action: str) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Adds one part to the formula, or ends it.

        Raises:
            TypeError: The action is not a text.
            RuntimeError: The environment was never reset.
        """
        self._check_action(action)
        too_long = len(self._formula) > self.max_formula_parts
        is_valid = action in self._admissible_actions()
        ended = action == END and not too_long
        self._won = ended and self._makes_target()

        if not too_long and not ended:
            if is_valid:
                self._formula.append(action)
            elif action in self._number_actions and self._rl4vlm:
                self._formula.append(" ")

        self._steps += 1
        truncated = too_long or (self._steps >= self._max_steps and not ended)
        lost_or_invalid = too_long or not is_valid or (ended and not self._won)
        reward = SUCCESS_REWARD if self._won else -1.0 if self._rl4vlm and lost_or_invalid else 0.0
        return self._observation(), reward, ended, truncated, {**self._info(), "is_action_valid": is_valid}

    def _makes_target(self) -> bool:
        return not self._unused_numbers() and evaluate("".join(self._formula)) == self.target

    def _admissible_actions(self) -> list[str]:
        return [*dict.fromkeys(self._unused_numbers()), *self.operators, END]

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

    def _text(self) -> str:
        return f"Numbers: {' '.join(map(str, self._dealt().numbers))}. {self._caption()}"

    def _caption(self) -> str:
        return f"Formula: {' '.join(self._shown_formula()) or 'empty'}"

    def _image(self) -> np.ndarray:
        return formula_table(self._dealt().cards, self._shown_formula())

    def _shown_formula(self) -> list[str]:
        return ["_" if part == " " else part for part in self._formula]

    def _game_info(self) -> dict[str, Any]:
        hand = self._dealt()
        return {
            "won": self._won,
            "task_id": f"{self.name}/{self._task}",
            "task_type": self.name,
            "admissible_actions": self._admissible_actions(),
            "Cards": list(hand.cards),
            "Numbers": list(hand.numbers),
            "Formula": list(self._formula),
        }

    def _dealt(self) -> Hand:
        hand: Hand = self._started(self._hand)
        return hand
