"""NumberLine of Gym Cards: walk to a number, one to the left or one to the right."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rllib_gigpo.env_adapters.generated_tasks import check_integer
from rllib_gigpo.env_adapters.gym_cards.card_env import CardEnv
from rllib_gigpo.env_adapters.gym_cards.drawing import SIZE, number_line
from rllib_gigpo.env_adapters.picture_env import ObservationMode

ACTIONS = ("-", "+")

# Sets these starts apart from any other use of a task number as a seed.
_STREAM = 0x6E6C696E


class _Line(NamedTuple):
    target: int
    current: int


class NumberLine(CardEnv):
    """A current and a target number between 0 and `max_position`; won when they are equal.

    Observation: text, "Target: 4. Current: 1". With `observation="image"` a dict of "text", which is "", and "image",
    the same two numbers as a picture.
    Action: text, "-" or "+", which changes the current number by one; beyond an end of the line it stays as it is,
    which is a bad choice, but a legal one. Any other text, "" included, is a no-op: invalid, the step counts.

    Reward (Zhai et al. 2024): +1 at the target, which terminates; 0 for a step closer to it; -1 for any other step, a
    no-op included. `max_steps` truncates.

    The two numbers are never equal at the start. (In the published code they may be, and then every way to win leads
    away from the target first.)

    Infos hold `won`, `task_id`, `task_type`, `admissible_actions` (both, always), `Target` and `Current`, after a step
    `is_action_valid`, and with images `anchor_state`.

    Args:
        max_position: The highest number.
        max_steps: Steps after which an episode is truncated. None: twice `max_position`, as published.
        observation: "text" or "image".
        image_size: Height and width of the picture in pixels.
        render_mode: "rgb_array" has `render()` return the picture.

    Raises:
        ValueError: An option has a value that is not allowed.
    """

    example_action = "+"

    def __init__(
        self,
        *,
        max_position: int = 5,
        max_steps: int | None = None,
        observation: ObservationMode = "text",
        image_size: int = SIZE,
        render_mode: str | None = None,
    ):
        check_integer("max_position", max_position, lowest=1, highest=999)
        super().__init__(
            max_steps=2 * max_position if max_steps is None else max_steps,
            observation=observation,
            image_size=image_size,
            render_mode=render_mode,
            max_length=64,
        )
        self._max_position = max_position
        self._line: _Line | None = None

    def _set_up(self, task: int) -> None:
        target, current = np.random.default_rng([_STREAM, task]).choice(self._max_position + 1, 2, replace=False)
        self._line = _Line(int(target), int(current))

    def step(self, action: str) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Moves the current number, or nothing.

        Raises:
            TypeError: The action is not a text.
            RuntimeError: The environment was never reset.
        """
        self._check_action(action)
        target, before = self._drawn()
        move = {"-": -1, "+": 1}.get(action, 0)
        current = min(max(before + move, 0), self._max_position)
        self._line = _Line(target, current)
        self._steps += 1

        won = current == target
        truncated = self._steps >= self._max_steps and not won
        is_closer = abs(current - target) < abs(before - target)
        reward = 1.0 if won else 0.0 if is_closer else -1.0
        return self._observation(), reward, won, truncated, {**self._info(), "is_action_valid": action in ACTIONS}

    def _text(self) -> str:
        target, current = self._drawn()
        return f"Target: {target}. Current: {current}"

    def _image(self) -> np.ndarray:
        return number_line(*self._drawn())

    def _game_info(self) -> dict[str, Any]:
        target, current = self._drawn()
        return {
            "won": current == target,
            "task_id": f"numberline/{self._task}",
            "task_type": "numberline",
            "admissible_actions": list(ACTIONS),
            "Target": target,
            "Current": current,
        }

    def _drawn(self) -> _Line:
        line: _Line = self._started(self._line)
        return line
