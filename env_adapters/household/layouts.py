"""Where things lie in a household and what is to be done there, by task number."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

OPENABLE = ("fridge", "cabinet", "drawer")
RECEPTACLES = (*OPENABLE, "table", "shelf", "sofa")
OBJECTS = ("apple", "mug", "book", "pen", "key", "plate")

# Sets these layouts apart from any other use of a task number as a seed.
_STREAM = 0x686F7573


class Layout(NamedTuple):
    """A task in a room.

    Attributes:
        receptacle_of: Which receptacle holds each object at first.
        object_to_put: The one of them that is to be put somewhere else.
        destination: The receptacle where it is to be put.
        receptacles: All receptacles of the room.
    """

    receptacle_of: dict[str, str]
    object_to_put: str
    destination: str
    receptacles: tuple[str, ...] = RECEPTACLES


def layout_of_task(task: int, *, num_objects: int) -> Layout:
    """The layout of a task, the same in any process.

    `num_objects` of `OBJECTS` lie in receptacles drawn independently; one of them is to be put in any receptacle but
    its own. All draws are uniform.
    """
    rng = np.random.default_rng([_STREAM, task])
    present = [OBJECTS[i] for i in rng.permutation(len(OBJECTS))[:num_objects]]
    receptacle_of = {name: RECEPTACLES[rng.integers(len(RECEPTACLES))] for name in present}
    object_to_put = present[0]
    elsewhere = [receptacle for receptacle in RECEPTACLES if receptacle != receptacle_of[object_to_put]]
    return Layout(receptacle_of, object_to_put, elsewhere[rng.integers(len(elsewhere))])
