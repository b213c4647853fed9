"""Points24 of Gym Cards: write a formula of four cards that equals 24."""

from __future__ import annotations

from rllib_gigpo.env_adapters.gym_cards.card_env import RewardScheme
from rllib_gigpo.env_adapters.gym_cards.drawing import SIZE
from rllib_gigpo.env_adapters.gym_cards.formula_game import FormulaGame
from rllib_gigpo.env_adapters.gym_cards.hands import Hand, points24_hand
from rllib_gigpo.env_adapters.picture_env import ObservationMode


class Points24(FormulaGame):
    """Four cards, one part of a formula a step, "=" at the end; won if the formula equals 24 and uses all numbers.

    Observation: text, "Numbers: 10 4 1 3. Formula: ( 10 -", or "... Formula: empty" at the start. With
    `observation="image"` a dict of "text", the formula alone, and "image", the cards and the formula.
    Action: text, one of "1" ... "10", "+", "-", "*", "/", "(", ")", "=". A number that is not on a card, or was used
    already, is invalid. Operators are never checked, and parts are joined before they are computed. Division is exact.
    Any other text, "" included, is a no-op: invalid, the formula stays as it is, the step counts.

    "=" terminates. A step on a formula of more than 20 parts truncates, whatever its action, and so does `max_steps`.

    Rewards:
        "verl-agent" (Feng et al. 2025, GiGPO): +10 for a win, 0 for everything else.
        "rl4vlm" (Zhai et al. 2024): +10 for a win; -1 for an invalid action, a lost game or a formula that is too
            long; 0 otherwise. An invalid number also takes up a part of the formula, a blank, shown as "_".

    Infos hold `won`, `task_id`, `task_type`, `admissible_actions` (the actions that are not invalid), `Cards`,
    `Numbers` and `Formula`, after a step `is_action_valid`, and with images `anchor_state`.

    Args:
        max_steps: Steps after which an episode is truncated. A win takes at most 12.
        reward_scheme: "verl-agent" or "rl4vlm".
        observation: "text" or "image".
        image_size: Height and width of the picture in pixels.
        render_mode: "rgb_array" has `render()` return the picture.
        solvable_only: Whether every hand makes 24. As published, about one hand in four does not.
        face_cards_as_ten: Whether J, Q and K count 10, as published, or 11, 12 and 13, which then are actions too.

    Raises:
        ValueError: An option has a value that is not allowed.
    """

    name = "points24"
    example_action = "10"
    target = 24
    operators = ("+", "-", "*", "/", "(", ")")
    max_formula_parts = 20

    def __init__(
        self,
        *,
        max_steps: int = 24,
        reward_scheme: RewardScheme = "verl-agent",
        observation: ObservationMode = "text",
        image_size: int = SIZE,
        render_mode: str | None = None,
        solvable_only: bool = False,
        face_cards_as_ten: bool = True,
    ):
        for option, value in (("solvable_only", solvable_only), ("face_cards_as_ten", face_cards_as_ten)):
            if not isinstance(value, bool):
                raise ValueError(f"{option} is {value!r}; it must be True or False")
        super().__init__(
            max_steps=max_steps,
            reward_scheme=reward_scheme,
            observation=observation,
            image_size=image_size,
            render_mode=render_mode,
            highest_number=10 if face_cards_as_ten else 13,
            max_length=128,
        )
        self._solvable_only = solvable_only
        self._face_cards_as_ten = face_cards_as_ten

    def _deal(self, task: int) -> Hand:
        return points24_hand(task, face_cards_as_ten=self._face_cards_as_ten, solvable_only=self._solvable_only)
