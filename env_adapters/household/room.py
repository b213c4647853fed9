"""What goes on in a household: one agent, who stands somewhere and carries at most one thing."""

from __future__ import annotations

import math

from rllib_gigpo.env_adapters.household.layouts import OBJECTS, OPENABLE, Layout


class Room:
    """The state of one episode.

    Args:
        layout: How it begins.
        in_a_row: Whether the receptacles stand in a row, in the order of the layout, and `go to R` leads only to the
            next one on the way to R; the agent begins between the two in the middle. If not, it leads to R.

    Attributes:
        layout: How it began, and the task.
        place: The receptacle at which the agent stands; None in the middle of the room, where it begins.
        held: The object in the agent's hand, or None.
        checked: Receptacles whose inside the agent has seen, in the order of the first look.
    """

    def __init__(self, layout: Layout, *, in_a_row: bool = False):
        self.layout = layout
        self._in_a_row = in_a_row
        self.place: str | None = None
        self.held: str | None = None
        self.checked: list[str] = []
        self._receptacle_of = dict(layout.receptacle_of)
        self._opened: set[str] = set()

    @property
    def is_closed(self) -> bool:
        """Whether the agent stands before something closed."""
        return self.place in OPENABLE and self.place not in self._opened

    @property
    def is_done(self) -> bool:
        """Whether the object of the task lies where it is to be put."""
        return self._receptacle_of.get(self.layout.object_to_put) == self.layout.destination

    @property
    def visible(self) -> list[str]:
        """The objects that the agent sees, in the order of `OBJECTS`."""
        if self.place is None or self.is_closed:
            return []
        return self.contents(self.place)

    def contents(self, receptacle: str) -> list[str]:
        """What lies in a receptacle, seen or not, in the order of `OBJECTS`."""
        return [name for name in OBJECTS if self._receptacle_of.get(name) == receptacle]

    def commands(self) -> list[str]:
        """Everything that can be done now."""
        going = [f"go to {receptacle}" for receptacle in self.layout.receptacles if receptacle != self.place]
        if self.place is None:
            return going
        if self.is_closed:
            return [*going, f"open {self.place}"]
        if self.held is not None:
            return [*going, f"put {self.held} in {self.place}"]
        return [*going, *(f"take {name} from {self.place}" for name in self.visible)]

    def do(self, command: str) -> None:
        """Carries out one of `commands()`."""
        match command.split():
            case ["go", "to", receptacle]:
                self.place = self._next_on_the_way_to(receptacle) if self._in_a_row else receptacle
            case ["open", receptacle]:
                self._opened.add(receptacle)
            case ["take", name, "from", _]:
                self.held = name
                del self._receptacle_of[name]
            case ["put", name, "in", receptacle]:
                self.held = None
                self._receptacle_of[name] = receptacle
        if self.place is not None and not self.is_closed and self.place not in self.checked:
            self.checked.append(self.place)

    def _next_on_the_way_to(self, receptacle: str) -> str:
        row = self.layout.receptacles
        # Half a place between the two in the middle of the row.
        here = len(row) / 2 - 0.5 if self.place is None else row.index(self.place)
        there = row.index(receptacle)
        return row[math.floor(here) + 1 if there > here else math.ceil(here) - 1]

    def history_line(self) -> str:
        """What was checked so far, "You checked table sofa."."""
        return f"You checked {' '.join(self.checked) or 'nothing'}."

    def state_line(self) -> str:
        """What is the case now, "You are at the drawer. You see apple pen. You hold nothing."."""
        if self.place is None:
            here = "You are in the middle of the room."
        elif self.is_closed:
            here = f"You are at the {self.place}. It is closed."
        else:
            here = f"You are at the {self.place}. You see {' '.join(self.visible) or 'nothing'}."
        return f"{here} You hold {self.held or 'nothing'}."
