"""Turns the task cursor, one integer, into tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rllib_gigpo.seeds import derive_seed

# Task numbers of environments that generate a task from a number: training draws below, the evaluation panel counts up
# from here, so that a panel never holds a training task and is the same for every seed and algorithm.
FIRST_EVALUATION_TASK = 2**31


class TaskStream:
    """The training tasks of a run, by cursor, and its fixed evaluation panel.

    Without explicit tasks, a task is an integer from which the environment generates an instance. With `tasks`, they
    are dealt in a new order every epoch. Both depend on `seed` and the cursor alone.

    Args:
        seed: The run's seed.
        tasks: Training tasks, anything that the environment's `reset(options={"task": ...})` takes.
        evaluation_tasks: The panel's tasks.
    """

    def __init__(self, seed: int, *, tasks: Sequence[Any] | None = None, evaluation_tasks: Sequence[Any] | None = None):
        self._seed = seed
        self._tasks = tasks
        self._evaluation_tasks = evaluation_tasks
        self._epoch_order: tuple[int, np.ndarray] | None = None

    def training_task(self, cursor: int) -> Any:
        """The task at `cursor` >= 0."""
        if self._tasks is None:
            return derive_seed(self._seed, "task", cursor) % FIRST_EVALUATION_TASK
        epoch, position = divmod(cursor, len(self._tasks))
        if self._epoch_order is None or self._epoch_order[0] != epoch:
            rng = np.random.default_rng(derive_seed(self._seed, "task order", epoch))
            self._epoch_order = (epoch, rng.permutation(len(self._tasks)))
        return self._tasks[self._epoch_order[1][position]]

    def evaluation_panel(self, size: int) -> list[Any]:
        """The first `size` evaluation tasks. Raises ValueError where fewer explicit ones exist."""
        if self._evaluation_tasks is None:
            return [FIRST_EVALUATION_TASK + i for i in range(size)]
        if size > len(self._evaluation_tasks):
            raise ValueError(
                f"evaluation_duration={size} asks for more tasks than evaluation_tasks holds "
                f"({len(self._evaluation_tasks)})"
            )
        return list(self._evaluation_tasks[:size])
