"""An expert at Household: what it sees in a situation, and what it does."""

from __future__ import annotations

from rllib_gigpo.env_adapters.demonstrations import Turn
from rllib_gigpo.env_adapters.household.room import Room


def expert_actions(room: Room) -> list[str]:
    """What brings the task nearer, as far as one can know: several actions where one has to guess where to look.

    A wrong object in the hand is put down on the spot.
    """
    wanted, destination = room.layout.object_to_put, room.layout.destination
    if room.held == wanted and room.place != destination:
        return [f"go to {destination}"]
    if room.is_closed:
        return [f"open {room.place}"]
    if room.held is not None:
        return [f"put {room.held} in {room.place}"]
    if wanted in room.visible:
        return [f"take {wanted} from {room.place}"]
    elsewhere = [receptacle for receptacle in room.layout.receptacles if receptacle != room.place]
    unchecked = [receptacle for receptacle in elsewhere if receptacle not in room.checked]
    return [f"go to {receptacle}" for receptacle in unchecked or elsewhere]


def situation(room: Room) -> tuple[str, str]:
    """How the task stands: where its object is ("held", "here" or "missing"), and its destination ("here", "away")."""
    wanted, destination = room.layout.object_to_put, room.layout.destination
    where = "held" if room.held == wanted else "here" if wanted in room.visible else "missing"
    return where, "here" if room.place == destination else "away"


def thought(room: Room) -> str:
    """The situation in one sentence.

    The name comes before what is said of it: to compare a name just written with the names in the prompt is far easier
    for a transformer of two layers than to compare two names in the prompt.
    """
    where, destination = situation(room)
    return f"The {room.layout.object_to_put} is {where}, the {room.layout.destination} {destination}."


def turn_in(room: Room, *, observation: str, task: str, step: int) -> Turn:
    """A turn of whoever acts in `room`, for demonstrations."""
    return Turn(
        observation=observation,
        task=task,
        step=step,
        thought=thought(room),
        situation=situation(room),
        expert_actions=expert_actions(room),
        possible_actions=room.commands(),
    )
