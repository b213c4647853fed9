"""Household as an environment: find an object among receptacles and put it where the task wants it."""

from __future__ import annotations

from typing import Any

from rllib_gigpo.env_adapters.generated_tasks import GeneratedTaskEnv, check_choice, check_integer, text_space
from rllib_gigpo.env_adapters.household.layouts import OBJECTS, Layout, layout_of_task
from rllib_gigpo.env_adapters.household.room import Room

SUCCESS_REWARD = 10.0


class Household(GeneratedTaskEnv[str]):
    """Six receptacles, three of them closed at first, some objects, and one task: "put apple in fridge".

    Observation: text of two lines, what was checked so far and what is the case now, for example
    "You checked table sofa.\\nYou are at the drawer. You see apple pen. You hold nothing."
    The task is not in it; it is `info["task_description"]`.

    Action: text, "go to R", "open R", "take O from R" or "put O in R", with R the name of a receptacle and O that of
    an object. One reaches only where one stands, holds one object at most, and what was opened stays open.
    Any other text, "" included, and a command that cannot be carried out now, is a no-op: invalid, nothing changes, the
    step counts.

    Reward: +10 as soon as the object of the task lies in its destination, which terminates; 0 for everything else.
    `max_steps` truncates. Without mistakes an episode takes 4 to 12 steps, most of them for the search.

    Infos hold `won`, `task_id`, `task_type`, `task_description`, `admissible_actions` (all that are not invalid) and
    `anchor_state`, the line on what is the case now: steps of a group are comparable at equal places, whatever was
    checked on the way there. After a step, also `is_action_valid`.

    Args:
        max_steps: Steps after which an episode is truncated.
        num_objects: How many of the six objects there are.
        in_a_row: Whether the receptacles stand in a row, where "go to R" leads one place nearer to R only. Then an
            episode comes through the same places again and again, and takes 18 steps at most if one searches the
            nearest places first, 38 if one does not: raise `max_steps`.

    Raises:
        ValueError: An option has a value that is not allowed.
    """

    example_action = "go to fridge"

    def __init__(self, *, max_steps: int = 15, num_objects: int = 4, in_a_row: bool = False):
        super().__init__(max_steps=max_steps)
        check_integer("num_objects", num_objects, lowest=1, highest=len(OBJECTS))
        self.observation_space = text_space(256, min_length=1)
        self.action_space = text_space(64)
        check_choice("in_a_row", in_a_row, (False, True))
        self._num_objects = num_objects
        self._in_a_row = in_a_row
        self._room: Room | None = None

    @property
    def room(self) -> Room:
        """The state, for experts and tests. Raises RuntimeError before the first reset."""
        room: Room = self._started(self._room)
        return room

    def _set_up(self, task: int) -> None:
        self._room = Room(layout_of_task(task, num_objects=self._num_objects), in_a_row=self._in_a_row)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Carries out a command, or nothing.

        Raises:
            TypeError: The action is not a text.
            RuntimeError: The environment was never reset.
        """
        self._check_action(action)
        is_valid = action in self.room.commands()
        if is_valid:
            self.room.do(action)
        self._steps += 1
        won = self.room.is_done
        truncated = self._steps >= self._max_steps and not won
        reward = SUCCESS_REWARD if won else 0.0
        return self._observation(), reward, won, truncated, {**self._info(), "is_action_valid": is_valid}

    def _observation(self) -> str:
        return f"{self.room.history_line()}\n{self.room.state_line()}"

    def _info(self) -> dict[str, Any]:
        return {
            "won": self.room.is_done,
            "task_id": f"household/{self._task}",
            "task_type": "put",
            "task_description": task_description(self.room.layout),
            "admissible_actions": self.room.commands(),
            "anchor_state": self.room.state_line(),
        }


def task_description(layout: Layout) -> str:
    """ "put apple in fridge"."""
    return f"put {layout.object_to_put} in {layout.destination}"
