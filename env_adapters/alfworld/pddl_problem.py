"""A room as a planning problem of ALFWorld's domain."""

from __future__ import annotations

from rllib_gigpo.env_adapters.alfworld.packages import packages
from rllib_gigpo.env_adapters.alfworld.rooms import Room, Thing

_AGENT_START = "loc|-9|-9|0|30"
# The domain names these itself.
_RECEPTACLE_TYPES = {"Fridge", "Microwave", "SinkBasin"}
_OBJECT_TYPES = {"ButterKnife", "Knife"}
_ABILITIES = {"Heatable": "heatable", "Coolable": "coolable", "Cleanable": "cleanable", "Sliceable": "sliceable"}


def pddl_problem(room: Room, task_type: str, *, name: str) -> str:
    """The text of the problem: what there is, how it is at first, and the goal of the task type."""
    place = {receptacle: f"loc|{i}|{i + 1}|{i % 4}|30" for i, receptacle in enumerate(room.receptacles)}
    receptacle_types = sorted({receptacle.kind for receptacle in room.receptacles} | _RECEPTACLE_TYPES)
    object_types = sorted({thing.kind for thing, _ in room.objects} | _OBJECT_TYPES)
    lines = [
        f"(define (problem {name})",
        "(:domain alfred)",
        "(:objects",
        "agent1 # agent",
        *(f"{kind}Type # otype" for kind in object_types),
        *(f"{kind}Type # rtype" for kind in receptacle_types),
        *(f"{thing.id} # object" for thing, _ in room.objects),
        *(f"{receptacle.id} # receptacle" for receptacle in room.receptacles),
        *(f"{location} # location" for location in (*place.values(), _AGENT_START)),
        ")",
        "(:init",
        f"(atLocation agent1 {_AGENT_START})",
        "(= (total-cost) 0)",
        *(fact for receptacle in room.receptacles for fact in _receptacle_facts(receptacle, place[receptacle])),
        *(fact for thing, where in room.objects for fact in _object_facts(thing, where, place[where])),
        *_fitting(receptacle_types, object_types),
        ")",
    ]
    goal = packages().goal_library.gdict[task_type]["pddl"]
    return _escaped("\n".join(lines)) + _escaped(goal.format(obj=room.target, recep=room.destination, toggle=room.lamp))


def _receptacle_facts(receptacle: Thing, location: str) -> list[str]:
    facts = [
        f"(receptacleType {receptacle.id} {receptacle.kind}Type)",
        f"(receptacleAtLocation {receptacle.id} {location})",
    ]
    if receptacle.kind in packages().constants.OPENABLE_CLASS_LIST:
        facts.append(f"(openable {receptacle.id})")
    return facts


def _object_facts(thing: Thing, receptacle: Thing, location: str) -> list[str]:
    kinds_with = packages().constants.VAL_ACTION_OBJECTS
    is_lamp = thing.kind in kinds_with["Toggleable"]
    return [
        f"(objectType {thing.id} {thing.kind}Type)",
        f"(inReceptacle {thing.id} {receptacle.id})",
        f"(objectAtLocation {thing.id} {location})",
        f"({'toggleable' if is_lamp else 'pickupable'} {thing.id})",
        *(
            f"({predicate} {thing.id})"
            for ability, predicate in _ABILITIES.items()
            if thing.kind in kinds_with[ability]
        ),
    ]


def _fitting(receptacle_types: list[str], object_types: list[str]) -> list[str]:
    holds = packages().constants.VAL_RECEPTACLE_OBJECTS
    return [
        f"(canContain {receptacle}Type {thing}Type)"
        for receptacle in receptacle_types
        for thing in object_types
        if thing in holds[receptacle]
    ]


def _escaped(text: str) -> str:
    """Ids without the characters that PDDL reserves. "#" stands for the dash between a name and its type."""
    replaced: dict[str, str | int | None] = {
        "-": "_minus_",
        "|": "_bar_",
        "+": "_plus_",
        ".": "_dot_",
        ",": "_comma_",
        "#": "-",
    }
    return text.translate(str.maketrans(replaced))
