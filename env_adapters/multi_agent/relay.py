"""What goes on in a relay: one object, two rooms, and a hatch between them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rllib_gigpo.env_adapters.household.layouts import OBJECTS, Layout
from rllib_gigpo.env_adapters.household.room import Room

FINDER, PLACER = AGENTS = ("finder", "placer")

# It belongs to both rooms.
HATCH = "hatch"
FINDER_RECEPTACLES = ("fridge", "cabinet", "table")
PLACER_RECEPTACLES = ("drawer", "shelf", "sofa")

# Sets these tasks apart from any other use of a task number as a seed.
_STREAM = 0x72656C61


class RelayTask(NamedTuple):
    """Which of the finder's receptacles holds each object at first, and which of them the placer is to put where."""

    receptacle_of: dict[str, str]
    object_to_put: str
    destination: str


def relay_task(task: int, *, num_objects: int) -> RelayTask:
    """The task of that number, the same in any process.

    `num_objects` of Household's objects lie in the finder's receptacles; all draws are independent and uniform.
    """
    rng = np.random.default_rng([_STREAM, task])
    present = [OBJECTS[i] for i in rng.permutation(len(OBJECTS))[:num_objects]]
    receptacle_of = {name: FINDER_RECEPTACLES[rng.integers(len(FINDER_RECEPTACLES))] for name in present}
    return RelayTask(receptacle_of, present[0], PLACER_RECEPTACLES[rng.integers(len(PLACER_RECEPTACLES))])


class Relay:
    """The state of one episode: a household's room for each agent, each with a task of its own.

    The finder's is to put the object into the hatch. What then lies there is all that there is in the placer's room,
    which exists from then on.

    Attributes:
        rooms: The room of each agent whose turn has come.
    """

    def __init__(self, task: RelayTask):
        self._task = task
        layout = Layout(task.receptacle_of, task.object_to_put, HATCH, (*FINDER_RECEPTACLES, HATCH))
        self.rooms = {FINDER: Room(layout)}

    @property
    def agent(self) -> str:
        """Whose turn it is."""
        return PLACER if PLACER in self.rooms else FINDER

    @property
    def is_done(self) -> bool:
        """Whether the object lies where it is to be put in the end."""
        return PLACER in self.rooms and self.rooms[PLACER].is_done

    def do(self, command: str) -> None:
        """Carries out one of the `commands()` of the room of the agent whose turn it is."""
        room = self.rooms[self.agent]
        room.do(command)
        if self.agent == FINDER and room.is_done:
            self.rooms[PLACER] = Room(
                Layout(
                    dict.fromkeys(room.contents(HATCH), HATCH),
                    self._task.object_to_put,
                    self._task.destination,
                    (*PLACER_RECEPTACLES, HATCH),
                )
            )
