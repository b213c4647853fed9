"""An expert at "put a mug in cabinet", who knows no more than what the game says at the moment."""

from __future__ import annotations

import re
from collections.abc import Sequence

_TASK = re.compile(r"put (?:a|some) (\w+) (?:in|on) (\w+)")


class Expert:
    """Follows one game from its start and says what brings the task nearer.

    Args:
        task: The task description, "put a mug in cabinet".
        commands: The admissible commands at the start.

    Raises:
        ValueError: It is another kind of task.
    """

    def __init__(self, task: str, commands: Sequence[str]):
        match = _TASK.fullmatch(task)
        if not match:
            raise ValueError(f"task is {task!r}; this expert knows only tasks such as 'put a mug in cabinet'")
        self.target, self.destination = match[1], match[2]
        self._place: str | None = None  # where the agent stands
        self._held: str | None = None
        self._commands = list(commands)

    def follow(self, command: str, commands: Sequence[str]) -> None:
        """Takes notice of a command that was carried out, and of what is admissible after it."""
        words = command.split()
        if words[:2] == ["go", "to"]:
            self._place = " ".join(words[2:])
        elif words[0] == "take":
            self._held = " ".join(words[1:3])
        elif words[0] == "move":
            self._held = None
        self._commands = list(commands)

    def situation(self) -> tuple[str, str]:
        """Where the object of the task is ("held", "here" or "missing"), and its destination ("here" or "away")."""
        if self._held is not None and self._held.split()[0] == self.target:
            where = "held"
        else:
            where = "here" if self._starting(f"take {self.target} ") else "missing"
        return where, "here" if self._at_destination() else "away"

    def thought(self) -> str:
        """The situation in one sentence."""
        where, destination = self.situation()
        return f"The {self.target} is {where}, the {self.destination} {destination}."

    def actions(self) -> list[str]:
        """Commands that bring the task nearer: several where one has to guess where to look.

        Not in the destination: were the object there, the task would be done.
        """
        where, _ = self.situation()
        if where == "held":
            if not self._at_destination():
                return self._starting(f"go to {self.destination} ")
            return self._starting("open ") or self._starting("move ")
        if self._held is not None:
            return self._starting("open ") or self._starting("move ") or self._starting("go to ")
        if where == "here":
            return self._starting(f"take {self.target} ")
        going = self._starting("go to ")
        searching = [command for command in going if command.split()[2] != self.destination]
        return (self._starting("open ") if not self._at_destination() else []) or searching or going

    def _at_destination(self) -> bool:
        return self._place is not None and self._place.split()[0] == self.destination

    def _starting(self, start: str) -> list[str]:
        return [command for command in self._commands if command.startswith(start)]
