"""Checks of what environments are given: constructor options, and the options of `reset`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

# Tasks drawn from a seed are below this.
TASKS = 2**31


def check_integer(name: str, value: Any, *, lowest: int, highest: int | None = None) -> None:
    """Raises ValueError where an option is not an integer of the allowed range."""
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    if not is_integer or value < lowest or (highest is not None and value > highest):
        allowed = f"of at least {lowest}" if highest is None else f"from {lowest} to {highest}"
        raise ValueError(f"{name} is {value!r}; it must be an integer {allowed}")


def task_of_reset(options: Mapping[str, Any] | None, rng: np.random.Generator, *, environment: str) -> int:
    """`options["task"]`, or, where it is not given, a task drawn from `rng`.

    Raises:
        TypeError: The task is not an integer.
        ValueError: The task is negative, or `options` has another key.
    """
    options = options or {}
    if unknown := sorted(set(options) - {"task"}):
        raise ValueError(f"reset got options {unknown}; the only known one is 'task'")
    task = options.get("task")
    if task is None:
        return int(rng.integers(TASKS))
    if isinstance(task, bool) or not isinstance(task, int | np.integer):
        raise TypeError(f"task is {task!r} of type {type(task).__name__}; {environment} takes an integer of at least 0")
    if task < 0:
        raise ValueError(f"task is {task}; {environment} takes an integer of at least 0")
    return int(task)
