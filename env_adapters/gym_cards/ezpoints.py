"""EZPoints of Gym Cards: write a formula of two cards that equals 12."""

from __future__ import annotations

from rllib_gigpo.env_adapters.gym_cards.card_env import RewardScheme
from rllib_gigpo.env_adapters.gym_cards.drawing import SIZE
from rllib_gigpo.env_adapters.gym_cards.formula_game import END, FormulaGame
from rllib_gigpo.env_adapters.gym_cards.hands import TARGET, Hand, hand_of_task
from rllib_gigpo.env_adapters.picture_env import ObservationMode

NUMBERS = tuple(str(number) for number in range(1, 11))
OPERATORS = ("+", "*")
ACTIONS = (*NUMBERS, *OPERATORS, END)

# A formula that has grown beyond this ends the episode at the next step.
MAX_FORMULA_PARTS = 5


class EZPoints(FormulaGame):
    """Two cards, one part of a formula a step, "=" at the end; won if the formula equals 12 and uses both numbers.

    Observation: text, "Numbers: 10 2. Formula: 10 +", or "... Formula: empty" at the start. With
    `observation="image"` a dict of "text", the formula alone, and "image", both cards and the formula.
    Action: text, one of "1" ... "10", "+", "*", "=". A number that is not on a card, or was used already, is invalid.
    Operators are never checked, and parts are joined before they are computed ("1" after "1" reads 11).
    Any other text, "" included, is a no-op: invalid, the formula stays as it is, the step counts.

    "=" terminates. A step on a formula of more than 5 parts truncates, whatever its action, and so does `max_steps`.

    Rewards:
        "verl-agent" (Feng et al. 2025, GiGPO): +10 for a win, 0 for everything else.
        "rl4vlm" (Zhai et al. 2024): +10 for a win; -1 for an invalid action, a lost game or a formula that is too
            long; 0 otherwise. An invalid number also takes up a part of the formula, a blank, shown as "_".

    Infos hold `won`, `task_id`, `task_type`, `admissible_actions` (the actions that are not invalid), `Cards`,
    `Numbers` and `Formula`, after a step `is_action_valid`, and with images `anchor_state`.

    Args:
        max_steps: Steps after which an episode is truncated.
        reward_scheme: "verl-agent" or "rl4vlm".
        observation: "text" or "image".
        image_size: Height and width of the picture in pixels.
        render_mode: "rgb_array" has `render()` return the picture.

    Raises:
        ValueError: An option has a value that is not allowed.
    """

    name = "ezpoints"
    example_action = "10"
    target = TARGET
    operators = OPERATORS
    max_formula_parts = MAX_FORMULA_PARTS

    def __init__(
        self,
        *,
        max_steps: int = 8,
        reward_scheme: RewardScheme = "verl-agent",
        observation: ObservationMode = "text",
        image_size: int = SIZE,
        render_mode: str | None = None,
    ):
        super().__init__(
            max_steps=max_steps,
            reward_scheme=reward_scheme,
            observation=observation,
            image_size=image_size,
            render_mode=render_mode,
            highest_number=10,
            max_length=128,
        )

    def _deal(self, task: int) -> Hand:
        return hand_of_task(task)
