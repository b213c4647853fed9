"""ALFWorld as an environment: household tasks in text, on TextWorld's engine."""

from __future__ import annotations

import logging
import os
import string
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from rllib_gigpo.env_adapters.alfworld.engine import Engine, borrow_engine, give_back
from rllib_gigpo.env_adapters.alfworld.game_files import GameFiles
from rllib_gigpo.env_adapters.alfworld.games import BrokenGameError, Game, Games
from rllib_gigpo.env_adapters.alfworld.generated_games import generated_games
from rllib_gigpo.env_adapters.alfworld.packages import DATA_VARIABLE, packages
from rllib_gigpo.env_adapters.alfworld.state_anchor import state_anchor
from rllib_gigpo.env_adapters.alfworld.task_types import check_split, checked_task_types

logger = logging.getLogger(__name__)

SUCCESS_REWARD = 10.0
_TASKS = 2**31
_BANNER = "-= Welcome to TextWorld, ALFRED! =-\n\n"
_TASK_LINE = "Your task is to: "
_MOST_BROKEN_GAMES = 100  # that one reset passes over before it gives up


class ALFWorld(gym.Env[str, str]):
    """A room, and one task such as "put a hot mug in cabinet", done by text commands.

    Observation: text, the game's answer to the last command, "You arrive at drawer 2. The drawer 2 is closed." The
    first one lists the receptacles of the room and ends with "Your task is to: put a hot mug in cabinet."

    Action: text, such as "go to drawer 2", "open drawer 2", "take mug 1 from drawer 2", "move mug 1 to cabinet 3",
    "heat mug 1 with microwave 1", "use desklamp 1", "examine mug 1", "look", "inventory". Case and surplus spaces do
    not matter. Any other text, "" included, is a no-op: "Nothing happens.", and the step counts.

    Reward: +10 when the task is done, which terminates; 0 for everything else. `max_steps` truncates.

    A task is a number or a game's name. Numbers go through the games in the order of their names and begin anew after
    the last one. The same task is the same game with the same texts in every process.

    Infos hold `won`, `task_id` (a name that `reset` takes), `task_type`, `task_description`, `admissible_actions` and,
    with `anchor_state="game"`, `anchor_state`; with `walkthrough=True` that of `reset` also holds `walkthrough`,
    commands that win; after a step, `is_action_admissible` and, with `inadmissible_is_invalid=True`, `is_action_valid`.

    Copying or pickling an environment leaves a game in progress behind; the copy has to be reset.

    Attributes:
        skipped_games: How many games of the split were left out, by reason; see `GameFiles`. Games that turn out broken
            only when they are to be played are added to "broken".

    Args:
        data: Folder with the data, in the public layout. None: the one that the variable ALFWORLD_DATA names; without
            that, games that are made up on the spot.
        split: "train", "valid_seen" or "valid_unseen".
        task_types: Names or numbers (from 1) of task types; None for all six.
        goal_descriptions: "template", the game's own text, or "human", what a person wrote. Of several of those, the
            first for a game by name, and another each time the numbers go through the games.
        max_steps: Steps after which an episode is truncated.
        anchor_state: "shown", steps are comparable where the game gave the same answer, as in the papers; or "game",
            where the same is true in the game: "Nothing happens." is then not one anchor state but many.
        inadmissible_is_invalid: Whether a command that cannot be carried out counts as an invalid action. In the papers
            only a response without a command does.
        walkthrough: Whether the info of `reset` holds a solution.
        num_receptacles, num_objects: Size of the rooms that are made up; None for the usual one.

    Raises:
        ImportError: The extra is not installed.
        FileNotFoundError: The data folder has no such split.
        ValueError: An option has a value that is not allowed, or no game is left.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 (gymnasium's own declaration)

    _engine: Engine | None  # from the first reset to close
    _give_back: weakref.finalize[[Engine], ALFWorld] | None  # returns the engine, also of an environment never closed
    _state: Any  # TextWorld's state of the game, None before a reset
    _game: Game

    def __init__(
        self,
        *,
        data: str | os.PathLike[str] | None = None,
        split: str = "train",
        task_types: Sequence[str | int] | None = None,
        goal_descriptions: str = "template",
        max_steps: int = 50,
        anchor_state: str = "shown",
        inadmissible_is_invalid: bool = False,
        walkthrough: bool = False,
        num_receptacles: int | None = None,
        num_objects: int | None = None,
    ):
        check_split(split)
        _check_choice("goal_descriptions", goal_descriptions, ("template", "human"))
        _check_choice("anchor_state", anchor_state, ("shown", "game"))
        if not isinstance(max_steps, int) or isinstance(max_steps, bool) or max_steps < 1:
            raise ValueError(f"max_steps is {max_steps!r}; it must be an integer of at least 1")
        packages()  # raises here rather than in the first reset
        names = checked_task_types(task_types)
        self._human = goal_descriptions == "human"
        self.skipped_games: dict[str, int] = {}
        self._games: Games
        self._num_games: int | None = None  # None where there is no last one
        if (folder := _data_folder(data)) is None:
            self._games = generated_games(split, names, num_receptacles, num_objects)
        elif num_receptacles is not None or num_objects is not None:
            raise ValueError(
                f"num_receptacles and num_objects are for games that are made up, but the games come from {folder}; "
                f"leave them out, or unset {DATA_VARIABLE}"
            )
        else:
            files = GameFiles(folder, split=split, task_types=names, need_human_goals=self._human)
            self._games, self._num_games = files, len(files.games)
            self.skipped_games.update(files.skipped)
        self.observation_space = spaces.Text(min_length=0, max_length=8192, charset=string.printable)
        self.action_space = spaces.Text(min_length=0, max_length=256, charset=string.printable)
        self._max_steps = max_steps
        self._anchor_in_game = anchor_state == "game"
        self._inadmissible_is_invalid = inadmissible_is_invalid
        self._walkthrough = walkthrough
        self._begin_without_engine()

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Starts the game of `options["task"]`, a number of at least 0 or a name, or of a number drawn from the seed.

        In the place of a game that turns out broken it starts the next one that is not.

        Raises:
            TypeError: The task is neither an integer nor a text.
            ValueError: The task is negative or no game's name, or `options` has another key.
            BrokenGameError: The game of that name is broken, or all of a hundred games in a row.
        """
        super().reset(seed=seed)
        options = options or {}
        if unknown := sorted(set(options) - {"task"}):
            raise ValueError(f"reset got options {unknown}; the only known one is 'task'")
        task = options.get("task")
        self._state = None
        round_ = 0
        if isinstance(task, str):
            game = self._games.by_task_id(task)
            self._state = self._lent_engine().start(game)
            self._game = game
        else:
            number = int(self.np_random.integers(_TASKS)) if task is None else _checked_task(task)
            self._state = self._start_from(number)
            round_ = 0 if self._num_games is None else number // self._num_games
        self._steps = 0
        text = str(self._state.feedback).removeprefix(_BANNER)
        room, _, goal = text.partition(_TASK_LINE)
        if self._human and self._game.human_goals:
            goals = self._game.human_goals
            goal = goals[round_ % len(goals)]
        self._description = goal.strip().removesuffix(".")
        info = self._info()
        if self._walkthrough:
            info["walkthrough"] = list(self._game.read().get("walkthrough") or self._lent_engine().plan())
        return f"{room}{_TASK_LINE}{self._description}.", info

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Gives a command.

        Raises:
            TypeError: The action is not a text.
            RuntimeError: The environment was never reset.
        """
        if not isinstance(action, str):
            raise TypeError(
                f"action is {action!r} of type {type(action).__name__}; ALFWorld takes text, e.g. 'go to drawer 1'"
            )
        if self._engine is None or self._state is None:
            raise RuntimeError("ALFWorld.step was called before reset")
        command = " ".join(action.lower().split())
        is_admissible = command in self._state["admissible_commands"]
        self._state = self._engine.step(command)
        self._steps += 1
        won = bool(self._state["won"])
        truncated = self._steps >= self._max_steps and not won
        info = {**self._info(), "is_action_admissible": is_admissible}
        if self._inadmissible_is_invalid:
            info["is_action_valid"] = is_admissible
        return str(self._state.feedback), SUCCESS_REWARD if won else 0.0, won, truncated, info

    def close(self) -> None:
        """Gives the engine back. A later reset takes one again."""
        if self._give_back is not None:
            self._give_back()
        self._begin_without_engine()

    def __getstate__(self) -> dict[str, Any]:
        left_out = {"_engine", "_give_back", "_state"}
        return {name: value for name, value in self.__dict__.items() if name not in left_out}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._begin_without_engine()

    def _begin_without_engine(self) -> None:
        self._engine = None
        self._give_back = None
        self._state = None
        self._steps = 0
        self._description = ""

    def _lent_engine(self) -> Engine:
        if self._engine is None:
            self._engine = borrow_engine()
            self._give_back = weakref.finalize(self, give_back, self._engine)
        return self._engine

    def _start_from(self, number: int) -> Any:
        """Starts the game of that number, or the next one that can be played; the state of the game."""
        engine = self._lent_engine()
        for tried in range(min(self._num_games or 1, _MOST_BROKEN_GAMES)):
            self._game = self._games.by_number(number + tried)
            try:
                return engine.start(self._game)
            except BrokenGameError as error:
                self.skipped_games["broken"] = self.skipped_games.get("broken", 0) + 1
                logger.warning("a broken game is passed over, %d so far: %s", self.skipped_games["broken"], error)
                last_error = error
        raise BrokenGameError(f"no game can be played, from task {number} on; the last: {last_error}") from last_error

    def _info(self) -> dict[str, Any]:
        info = {
            "won": bool(self._state["won"]),
            "task_id": self._game.task_id,
            "task_type": self._game.task_type,
            "task_description": self._description,
            "admissible_actions": list(self._state["admissible_commands"]),
        }
        if self._anchor_in_game:
            info["anchor_state"] = state_anchor(self._state)
        return info


_said_that_games_are_made_up = False


def _data_folder(data: str | os.PathLike[str] | None) -> Path | None:
    """The folder of the data, None where none is named. Raises FileNotFoundError where it is named but not there."""
    global _said_that_games_are_made_up
    named = data if data is not None else os.environ.get(DATA_VARIABLE)
    if named is not None and str(named):
        return Path(named).expanduser().resolve()
    if not _said_that_games_are_made_up:
        logger.warning(
            "ALFWorld plays small games that are made up on the spot: no data folder is named. For the benchmark's own "
            "games set %s, or env_config['data'], to the folder of alfworld-download",
            DATA_VARIABLE,
        )
        _said_that_games_are_made_up = True
    return None


def _check_choice(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{name} is {value!r}; it must be one of {', '.join(allowed)}")


def _checked_task(task: Any) -> int:
    if isinstance(task, bool) or not isinstance(task, int | np.integer):
        raise TypeError(
            f"task is {task!r} of type {type(task).__name__}; ALFWorld takes an integer of at least 0 or a game's name"
        )
    if task < 0:
        raise ValueError(f"task is {task}; ALFWorld takes an integer of at least 0 or a game's name")
    return int(task)
