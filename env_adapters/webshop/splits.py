"""Goals to train with and goals to validate with: never the same, in no process and on no machine."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from rllib_gigpo.env_adapters.generated_tasks import TASKS

_MOST_VALIDATION_GOALS = 500  # as published
_TASK_ID = re.compile(r"(train|valid)/(\d+)")


def num_validation_goals(num_goals: int) -> int:
    """How many of the shuffled goals, the first ones, are to validate with; `num_goals` is 2 at least."""
    return max(1, min(_MOST_VALIDATION_GOALS, num_goals // 5))


def goal_number(task: Any, num_goals: int) -> int:
    """The number, in the shuffled order, of the goal of a task.

    Args:
        task: A number or a name. Numbers below `TASKS` are of goals to train with, others, which the evaluation panel
            uses, of goals to validate with; each go round theirs.
        num_goals: How many there are in all.

    Raises:
        TypeError: The task is neither an integer nor a text.
        ValueError: It is negative, or no goal's name.
    """
    num_valid = num_validation_goals(num_goals)
    num_train = num_goals - num_valid
    if isinstance(task, str):
        match = _TASK_ID.fullmatch(task)
        index = int(match[2]) if match else 0
        if not match or index >= (num_train if match[1] == "train" else num_valid):
            raise ValueError(
                f"task is {task!r}; a goal is named 'train/0' to 'train/{num_train - 1}' or 'valid/0' to "
                f"'valid/{num_valid - 1}'"
            )
        return index + (num_valid if match[1] == "train" else 0)
    if isinstance(task, bool) or not isinstance(task, int | np.integer):
        raise TypeError(
            f"task is {task!r} of type {type(task).__name__}; WebShop takes an integer of at least 0 or a goal's name"
        )
    if task < 0:
        raise ValueError(f"task is {task}; WebShop takes an integer of at least 0 or a goal's name")
    number = int(task)
    return (number - TASKS) % num_valid if number >= TASKS else num_valid + number % num_train


def task_id_of(number: int, num_goals: int) -> str:
    """The name of the goal of a number in the shuffled order."""
    num_valid = num_validation_goals(num_goals)
    return f"valid/{number}" if number < num_valid else f"train/{number - num_valid}"
