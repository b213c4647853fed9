"""Sokoban as an environment: push boxes onto targets, on a grid of symbols or in a picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from rllib_gigpo.env_adapters.generated_tasks import check_integer, text_space
from rllib_gigpo.env_adapters.picture_env import ObservationMode, PictureEnv
from rllib_gigpo.env_adapters.sokoban.drawing import CELL_PIXELS, LARGEST_CELL, SMALLEST_CELL, drawn
from rllib_gigpo.env_adapters.sokoban.levels import Level, level_of_task
from rllib_gigpo.env_adapters.sokoban.rules import DIRECTIONS, Position, is_solved, move

# Wall, floor, target, box on a target, box, player, player on a target.
SYMBOLS = ("#", "_", "O", "√", "X", "P", "S")


class Sokoban(PictureEnv):
    """Boxes are pushed onto targets; solved when every box is on one.

    Observation: text, the grid, one line a row, symbols separated by blanks. With `observation="image"` a dict of
    "text", which is "", and "image", uint8[size · cell_pixels, size · cell_pixels, 3].
    Action: text, "up", "down", "left" or "right". It walks, or pushes one box; where wall or a second box is in the
    way nothing moves, which is a bad choice, but a legal one.
    Any other text, "" included, is a no-op: invalid, nothing moves, the step counts and costs `step_reward`. (In
    verl-agent such a step costs as much, but does not count, so an episode of nothing else never ends there.)

    Reward, by default the published one: -0.1 each step, +1 for each box pushed onto a target, -1 for each pushed off,
    +10 when solved. So the last step of a win is worth 10.9. Solving terminates, `max_steps` truncates; a box in a
    corner ends nothing.

    A level depends on the task and the four options that speak of levels. Every level has a solution of at most
    `max_solution_length` moves.

    Infos hold `won`, `task_id`, `task_type`, `admissible_actions` (all four, always), `solution_length` (moves of the
    level's shortest solution) and `boxes_on_target`, after a step `is_action_valid`, and with images `anchor_state`.

    Args:
        size: Rows and columns of the grid, the walls of the border included.
        num_boxes: Boxes, and targets.
        min_solution_length: Fewest moves of a shortest solution: with `max_solution_length` the level of difficulty.
        max_solution_length: Most moves of a shortest solution, 1000 at most.
        max_steps: Steps after which an episode is truncated.
        step_reward: For every step.
        box_on_target_reward: For a box pushed onto a target.
        box_off_target_reward: For a box pushed off a target.
        solved_reward: For the last box.
        symbols: Seven texts without blanks, all different: wall, floor, target, box on a target, box, player, player
            on a target.
        max_tries: Candidates looked at for a level of this difficulty.
        observation: "text" or "image".
        cell_pixels: Height and width of a cell in the picture; 16, as published, makes 96 × 96 of six rows.
        render_mode: "rgb_array" has `render()` return the picture.

    Raises:
        ValueError: An option has a value that is not allowed.
    """

    example_action = "up"

    def __init__(
        self,
        *,
        size: int = 6,
        num_boxes: int = 1,
        min_solution_length: int = 3,
        max_solution_length: int = 12,
        max_steps: int = 15,
        step_reward: float = -0.1,
        box_on_target_reward: float = 1.0,
        box_off_target_reward: float = -1.0,
        solved_reward: float = 10.0,
        symbols: Sequence[str] = SYMBOLS,
        max_tries: int = 1000,
        observation: ObservationMode = "text",
        cell_pixels: int = CELL_PIXELS,
        render_mode: str | None = None,
    ):
        # In a grid of 4 no push is possible: player, box and target need three cells in a line.
        check_integer("size", size, lowest=5, highest=20)
        check_integer("max_steps", max_steps, lowest=1)
        check_integer("cell_pixels", cell_pixels, lowest=SMALLEST_CELL, highest=LARGEST_CELL)
        check_integer("num_boxes", num_boxes, lowest=1, highest=(size - 2) ** 2 // 4)
        # Each candidate is played backwards for up to four times as many moves.
        check_integer("max_solution_length", max_solution_length, lowest=1, highest=1000)
        if max_solution_length > max_steps:
            raise ValueError(
                f"max_solution_length is {max_solution_length}, but max_steps is {max_steps}: such a level could not "
                "be won; lower the one or raise the other"
            )
        check_integer("min_solution_length", min_solution_length, lowest=1, highest=max_solution_length)
        check_integer("max_tries", max_tries, lowest=1)
        self._level_options = {
            "size": size,
            "num_boxes": num_boxes,
            "min_solution_length": min_solution_length,
            "max_solution_length": max_solution_length,
            "max_tries": max_tries,
        }
        self._step_reward = _checked_reward("step_reward", step_reward)
        self._on_reward = _checked_reward("box_on_target_reward", box_on_target_reward)
        self._off_reward = _checked_reward("box_off_target_reward", box_off_target_reward)
        self._solved_reward = _checked_reward("solved_reward", solved_reward)
        self._symbols = _checked_symbols(symbols)
        longest = size * size * (max(map(len, self._symbols)) + 1)
        super().__init__(
            max_steps=max_steps,
            observation=observation,
            text=text_space(longest, min_length=1, more_characters="".join(self._symbols)),
            caption=text_space(0),
            picture_size=(size * cell_pixels, size * cell_pixels),
            render_mode=render_mode,
        )
        self._cell_pixels = cell_pixels
        self._level: Level | None = None
        self._position: Position | None = None

    @property
    def level(self) -> Level:
        """The level that is played. Raises RuntimeError before the first reset."""
        level: Level = self._started(self._level)
        return level

    @property
    def position(self) -> Position:
        """Where player and boxes are. Raises RuntimeError before the first reset."""
        return self.level.start if self._position is None else self._position

    def _set_up(self, task: int) -> None:
        """Raises ValueError where no level of this difficulty was found in `max_tries` tries."""
        self._level = level_of_task(task, **self._level_options)
        self._position = self._level.start

    def step(self, action: str) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Moves the player, or nothing.

        Raises:
            TypeError: The action is not a text.
            RuntimeError: The environment was never reset.
        """
        self._check_action(action)
        board, before = self.level.board, self.position
        is_valid = action in DIRECTIONS
        after = move(board, before, action) if is_valid else before
        self._position = after
        self._steps += 1

        won = is_solved(board, after)
        truncated = self._steps >= self._max_steps and not won
        gained = len(after.boxes & board.targets) - len(before.boxes & board.targets)
        reward = self._step_reward + {1: self._on_reward, 0: 0.0, -1: self._off_reward}[gained]
        reward += self._solved_reward if won else 0.0
        return self._observation(), reward, won, truncated, {**self._info(), "is_action_valid": is_valid}

    def _text(self) -> str:
        size = self.level.board.size
        rows = (range(row * size, (row + 1) * size) for row in range(size))
        return "\n".join(" ".join(self._symbol(cell) for cell in row) for row in rows)

    def _symbol(self, cell: int) -> str:
        wall, floor, target, box_on_target, box, player, player_on_target = self._symbols
        board, position = self.level.board, self.position
        is_target = cell in board.targets
        if cell == position.player:
            return player_on_target if is_target else player
        if cell in position.boxes:
            return box_on_target if is_target else box
        if is_target:
            return target
        return floor if cell in board.floor else wall

    def _picture(self) -> np.ndarray:
        return drawn(self.level.board, self.position, self._cell_pixels)

    def _game_info(self) -> dict[str, Any]:
        board, position = self.level.board, self.position
        return {
            "won": is_solved(board, position),
            "task_id": f"sokoban/{self._task}",
            "task_type": "sokoban",
            "admissible_actions": list(DIRECTIONS),
            "solution_length": self.level.solution_length,
            "boxes_on_target": len(position.boxes & board.targets),
        }


def _checked_reward(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{name} is {value!r}; it must be a finite number")
    return float(value)


def _checked_symbols(symbols: Sequence[str]) -> tuple[str, ...]:
    texts = tuple(symbols) if isinstance(symbols, Sequence) else ()
    blank = any(not isinstance(text, str) or not text or any(map(str.isspace, text)) for text in texts)
    if len(texts) != len(SYMBOLS) or blank or len(set(texts)) < len(SYMBOLS):
        raise ValueError(
            f"symbols is {symbols!r}; it must be {len(SYMBOLS)} different texts without blanks, for wall, floor, "
            f"target, box on a target, box, player and player on a target, such as {list(SYMBOLS)}"
        )
    return texts
