"""Games by number, made up on the spot: no data needed, as many as one likes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from rllib_gigpo.env_adapters.alfworld.games import Game
from rllib_gigpo.env_adapters.alfworld.packages import packages
from rllib_gigpo.env_adapters.alfworld.pddl_problem import pddl_problem
from rllib_gigpo.env_adapters.alfworld.rooms import Room, draw_room
from rllib_gigpo.env_adapters.alfworld.task_types import SPLITS, TASK_TYPES

NUM_RECEPTACLES = 10
NUM_OBJECTS = 5

# Sets these rooms apart from any other use of a number as a seed.
_STREAM = 0x616C6677
_TASK_ID = re.compile(r"generated/(\w+)/(\w+)/(\d+)")


@dataclass(frozen=True)
class GeneratedGames:
    """Games that can be solved, since every draw of a room makes sure of it.

    Task number n is of type n modulo the number of types. Splits differ in nothing but their rooms.

    Attributes:
        split: One of `SPLITS`.
        task_types: Names.
        num_receptacles, num_objects: See `draw_room`; with the number and the split they decide a room.
        seed: For other rooms.
    """

    split: str
    task_types: tuple[str, ...]
    num_receptacles: int = NUM_RECEPTACLES
    num_objects: int = NUM_OBJECTS
    seed: int = 0

    def by_number(self, number: int) -> Game:
        index, kind = divmod(number, len(self.task_types))
        return self.game(self.split, self.task_types[kind], index)

    def by_task_id(self, task_id: str) -> Game:
        match = _TASK_ID.fullmatch(task_id)
        if not match or match[1] not in SPLITS or match[2] not in TASK_TYPES:
            raise ValueError(
                f"task is {task_id!r}; a generated game is named 'generated/<split>/<task type>/<number>', such as "
                f"'generated/train/{TASK_TYPES[0]}/0'"
            )
        return self.game(match[1], match[2], int(match[3]))

    def game(self, split: str, task_type: str, index: int) -> Game:
        """The `index`-th game of a split and type."""
        goal, _ = self._drawn(split, task_type, index)
        source = f"generated:{self.num_receptacles}:{self.num_objects}:{self.seed}"
        read = partial(self._content, split, task_type, index)
        return Game(source, f"generated/{split}/{task_type}/{index}", task_type, (f"Please {goal}.",), read)

    def trajectory(self, split: str, task_type: str, index: int) -> dict[str, Any]:
        """What the public data says about a game in its file traj_data.json, as far as it is used."""
        goal, room = self._drawn(split, task_type, index)
        return {
            "task_id": f"trial_{index}",
            "task_type": task_type,
            "pddl_params": {
                "object_target": room.target,
                "parent_target": room.destination,
                "toggle_target": room.lamp,
                "mrecep_target": "",
                "object_sliced": False,
            },
            "scene": {"floor_plan": "Generated", "scene_num": 0},
            "turk_annotations": {"anns": [{"task_desc": f"Please {goal}."}]},
        }

    def _drawn(self, split: str, task_type: str, index: int) -> tuple[str, Room]:
        """The task in words, and the room."""
        rng = np.random.default_rng([_STREAM, self.seed, SPLITS.index(split), TASK_TYPES.index(task_type), index])
        room = draw_room(task_type, num_receptacles=self.num_receptacles, num_objects=self.num_objects, rng=rng)
        templates = packages().goal_library.gdict[task_type]["templates"]
        template = templates[rng.integers(len(templates))]
        return template.format(obj=room.target.lower(), recep=room.destination.lower(), toggle=room.lamp.lower()), room

    def _content(self, split: str, task_type: str, index: int) -> dict[str, Any]:
        goal, room = self._drawn(split, task_type, index)
        domain, grammar = _logic()
        return {
            "pddl_domain": domain,
            "grammar": grammar.replace("UNKNOWN GOAL", goal),
            "pddl_problem": pddl_problem(room, task_type, name=f"{split}_{task_type}_{index}"),
            "walkthrough": None,
            "solvable": True,
        }


@cache
def _logic() -> tuple[str, str]:
    """ALFWorld's own domain and grammar."""
    return packages().domain_file.read_text(), packages().grammar_file.read_text()


def check_sizes(num_receptacles: int, num_objects: int) -> None:
    """Raises ValueError where a number is not allowed."""
    for name, value, lowest in (("num_receptacles", num_receptacles, 2), ("num_objects", num_objects, 0)):
        if not isinstance(value, int) or isinstance(value, bool) or value < lowest:
            raise ValueError(f"{name} is {value!r}; it must be an integer of at least {lowest}")


def generated_games(
    split: str, task_types: Sequence[str], num_receptacles: int | None, num_objects: int | None
) -> GeneratedGames:
    """Generated games; None stands for the usual size. Raises ValueError where a number is not allowed."""
    num_receptacles = NUM_RECEPTACLES if num_receptacles is None else num_receptacles
    num_objects = NUM_OBJECTS if num_objects is None else num_objects
    check_sizes(num_receptacles, num_objects)
    return GeneratedGames(split, tuple(task_types), num_receptacles, num_objects)
