"""A game of ALFWorld, wherever it comes from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol


class BrokenGameError(Exception):
    """The content of a game cannot be read or played."""


@dataclass(frozen=True)
class Game:
    """One game.

    Attributes:
        source: What it is from, a folder or the options of a generator: two sources may have games of one name.
        task_id: Its name, the same on every machine.
        task_type: One of `TASK_TYPES`.
        human_goals: Descriptions of the task by people; may be empty.
        read: Its content, as in a file game.tw-pddl: "pddl_domain", "grammar", "pddl_problem", "walkthrough", ...
            Raises BrokenGameError.
    """

    source: str
    task_id: str
    task_type: str
    human_goals: tuple[str, ...] = field(compare=False)
    read: Callable[[], Mapping[str, Any]] = field(compare=False)


class Games(Protocol):
    """Games by number and by name."""

    def by_number(self, number: int) -> Game:
        """The game of a task number, 0 or more; numbers beyond the last game begin anew."""

    def by_task_id(self, task_id: str) -> Game:
        """The game of that name, of any split. Raises ValueError where there is none."""
