"""What environments share that generate their instances from a task number, and whose actions are text."""

from __future__ import annotations

import string
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, TypeVar

import gymnasium as gym
import numpy as np
from gymnasium import spaces

ObservationType = TypeVar("ObservationType")

# Tasks drawn from a seed are below this.
TASKS = 2**31


class GeneratedTaskEnv(gym.Env[ObservationType, str], ABC, Generic[ObservationType]):
    """An environment with one instance a task, an integer of at least 0: `reset(options={"task": 17})`.

    The task alone decides the instance, in any process; without one the seed decides the task. A subclass sets up the
    instance in `_set_up`, and counts `self._steps` in its `step`.

    Args:
        max_steps: Steps after which an episode is truncated.

    Raises:
        ValueError: `max_steps` is no integer of at least 1.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 (gymnasium's own declaration)
    example_action: ClassVar[str]  # for the message about an action that is no text

    def __init__(self, *, max_steps: int):
        check_integer("max_steps", max_steps, lowest=1)
        self._max_steps = max_steps
        self._task = 0
        self._steps = 0

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[ObservationType, dict[str, Any]]:
        """Sets up `options["task"]`, an integer of at least 0, or a task drawn from the seed.

        Raises:
            TypeError: The task is not an integer.
            ValueError: The task is negative, or `options` has another key.
        """
        super().reset(seed=seed)
        self._task = task_of_reset(options, self.np_random, environment=type(self).__name__)
        self._steps = 0
        self._set_up(self._task)
        return self._observation(), self._info()

    @abstractmethod
    def _set_up(self, task: int) -> None:
        """Makes the instance of `task`, at its start."""

    @abstractmethod
    def _observation(self) -> ObservationType:
        """What the environment shows now."""

    @abstractmethod
    def _info(self) -> dict[str, Any]:
        """The info of now, without `is_action_valid`."""

    def _started(self, instance: Any | None) -> Any:
        """`instance`, which is None before the first reset. Raises RuntimeError where it is."""
        if instance is None:
            raise RuntimeError(f"{type(self).__name__}.step was called before reset")
        return instance

    def _check_action(self, action: Any) -> None:
        if not isinstance(action, str):
            raise TypeError(
                f"action is {action!r} of type {type(action).__name__}; {type(self).__name__} takes text, "
                f"e.g. {self.example_action!r}"
            )


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


def text_space(max_length: int, *, min_length: int = 0, more_characters: str = "") -> spaces.Text:
    """Texts of printable ASCII and `more_characters`; Gymnasium's own default is letters and digits alone."""
    return spaces.Text(
        min_length=min_length, max_length=max_length, charset=frozenset(string.printable + more_characters)
    )


def check_integer(name: str, value: Any, *, lowest: int, highest: int | None = None) -> None:
    """Raises ValueError where `value` is no integer from `lowest` to `highest`."""
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    if not is_integer or value < lowest or (highest is not None and value > highest):
        allowed = f"of at least {lowest}" if highest is None else f"from {lowest} to {highest}"
        raise ValueError(f"{name} is {value!r}; it must be an integer {allowed}")


def check_choice(name: str, value: Any, choices: tuple[Any, ...]) -> None:
    """Raises ValueError where `value` is none of `choices`."""
    # Not `value in choices` alone: 1 == True, and a list compares with nothing.
    if not any(type(value) is type(choice) and value == choice for choice in choices):
        raise ValueError(f"{name} is {value!r}; allowed are {list(choices)}")
