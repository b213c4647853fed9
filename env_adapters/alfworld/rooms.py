"""Small rooms for the six task types, drawn from a random generator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

import numpy as np

from rllib_gigpo.env_adapters.alfworld.packages import packages

_T = TypeVar("_T")

# Classes of receptacles, and how many of each a room may have.
KITCHEN = {
    "Cabinet": 3,
    "CoffeeMachine": 1,
    "CounterTop": 2,
    "DiningTable": 1,
    "Drawer": 3,
    "Fridge": 1,
    "GarbageCan": 1,
    "Microwave": 1,
    "Shelf": 2,
    "SinkBasin": 1,
    "StoveBurner": 1,
    "Toaster": 1,
}
BEDROOM = {"Bed": 1, "Desk": 2, "Drawer": 3, "Dresser": 1, "GarbageCan": 1, "Safe": 1, "Shelf": 3, "SideTable": 2}

# Where the state of an object is changed, and which objects can be.
_APPLIANCES = {
    "pick_clean_then_place_in_recep": ("SinkBasin", "Cleanable"),
    "pick_heat_then_place_in_recep": ("Microwave", "Heatable"),
    "pick_cool_then_place_in_recep": ("Fridge", "Coolable"),
}
_LOOK, _TWO = "look_at_obj_in_light", "pick_two_obj_and_place"
_LAMP = "DeskLamp"
_LAMP_STANDS_ON = ("Desk", "Dresser", "SideTable")


@dataclass(frozen=True)
class Thing:
    """An object or receptacle: its id in the manner of AI2-THOR, "Mug|+00.25|-01.10|+01.00", and its class."""

    id: str
    kind: str


@dataclass(frozen=True)
class Room:
    """A room and a task in it.

    Attributes:
        receptacles: In any order.
        objects: Each with the receptacle in which it lies.
        target: Class of the object, or the two, that the task is about.
        destination: Class of the receptacle where it is to go; "" for a task with a lamp.
        lamp: Class of the lamp of such a task, else "".
    """

    receptacles: tuple[Thing, ...]
    objects: tuple[tuple[Thing, Thing], ...]
    target: str
    destination: str
    lamp: str


def draw_room(task_type: str, *, num_receptacles: int, num_objects: int, rng: np.random.Generator) -> Room:
    """A room in which a task of that type can be done, and is not done yet.

    It has `num_receptacles`, or as many more as the task needs, up to four, and `num_objects` beside those of the task,
    none of the class that the task is about. Everything that can be closed is.
    """
    kinds_in_kitchen = task_type in _APPLIANCES or (task_type != _LOOK and rng.random() < 0.5)
    available = KITCHEN if kinds_in_kitchen else BEDROOM
    appliance, ability = _APPLIANCES.get(task_type, ("", ""))

    can_hold = {kind: _can_hold(kind) for kind in available}
    candidates = {
        kind
        for kind in frozenset().union(*can_hold.values())
        if not ability or kind in packages().constants.VAL_ACTION_OBJECTS[ability]
    }
    choices = [
        (target, destination, start)
        for target in sorted(candidates)
        for destination in ("" if task_type == _LOOK else kind for kind in available)
        for start in available
        if start != destination and target in can_hold[start] and (not destination or target in can_hold[destination])
    ]
    target, destination, start = choices[rng.integers(len(choices))]

    lamp_place = _pick(_LAMP_STANDS_ON, rng) if task_type == _LOOK else ""
    kinds = list(dict.fromkeys(kind for kind in (start, destination, appliance, lamp_place) if kind))
    others = [kind for kind, most in available.items() for _ in range(most - kinds.count(kind))]
    kinds += [others[i] for i in rng.permutation(len(others))[: max(0, num_receptacles - len(kinds))]]
    names = _Names(rng)
    receptacles = [names.thing(kind) for kind in kinds]

    objects = [(names.thing(target), receptacles[0])]
    if task_type == _TWO:
        places = [place for place in receptacles if place.kind != destination and target in can_hold[place.kind]]
        objects.append((names.thing(target), _pick(places, rng)))
    if lamp_place:
        objects.append((names.thing(_LAMP), receptacles[kinds.index(lamp_place)]))
    for _ in range(num_objects):
        place = _pick(receptacles, rng)
        if fitting := sorted(can_hold[place.kind] - {target}):
            objects.append((names.thing(_pick(fitting, rng)), place))
    return Room(tuple(receptacles), tuple(objects), target, destination, _LAMP if lamp_place else "")


@cache
def _can_hold(receptacle: str) -> frozenset[str]:
    # Slices come from slicing, and boxes would have to be opened, which the game has no command for.
    holds = packages().constants.VAL_RECEPTACLE_OBJECTS
    return frozenset(kind for kind in holds[receptacle] if "Sliced" not in kind and kind != "Box")


def _pick(choices: Sequence[_T], rng: np.random.Generator) -> _T:
    return choices[int(rng.integers(len(choices)))]


class _Names:
    """Ids at places that are all different."""

    def __init__(self, rng: np.random.Generator):
        self._rng = rng
        self._taken: set[str] = set()

    def thing(self, kind: str) -> Thing:
        while True:
            place = "|".join(f"{coordinate:+06.2f}" for coordinate in self._rng.uniform(-4, 4, size=3))
            if place not in self._taken:
                break
        self._taken.add(place)
        # The id of a basin ends in its class; TextWorld's ALFWorld names it by both ends, "sinkbasin".
        is_basin = kind.endswith("Basin")
        return Thing(f"{kind.removesuffix('Basin')}|{place}|{kind}" if is_basin else f"{kind}|{place}", kind)
