"""Learners in plain processes that exchange over gloo. They are forked from one that has imported everything, which
each of Ray's actors does anew."""

from __future__ import annotations

import multiprocessing
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch
from ray.rllib.core import DEFAULT_MODULE_ID

from rllib_gigpo.learners.group_policy_torch_learner import GroupPolicyTorchLearner
from rllib_gigpo.rows import TokenRows
from tests.learner_cases import batch_of, learner_parts

# What `Processes.call` calls: with the number of learners, which of them it is, and its arguments.
LearnerCall = Callable[..., Any]


class Processes:
    """At most `most` learners at a time."""

    def __init__(self, most: int):
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["tests.learner_processes", "tests.tiny_models", "tests.vision_cases", "peft"])
        # A process for each rank: DTensor remembers by the mesh which rows of a weight are its own, whatever the rank.
        self._pools = [ProcessPoolExecutor(1, mp_context=context) for _ in range(most)]

    def call(self, num_learners: int, function: LearnerCall, *arguments: Any) -> list[Any]:
        """What `function` returns in each of so many processes."""
        with tempfile.TemporaryDirectory() as folder:
            calls = [
                pool.submit(_with_group, Path(folder, "store"), num_learners, index, function, arguments)
                for index, pool in enumerate(self._pools[:num_learners])
            ]
            return [call.result(timeout=600) for call in calls]

    def close(self) -> None:
        """Ends the processes."""
        for pool in self._pools:
            pool.shutdown(cancel_futures=True)


@contextmanager
def processes(most: int) -> Iterator[Processes]:
    """As `Processes`, which end with the block."""
    found = Processes(most)
    try:
        yield found
    finally:
        found.close()


def _with_group(store: Path, num_learners: int, index: int, function: LearnerCall, arguments: tuple[Any, ...]) -> Any:
    torch.set_num_threads(1)
    if num_learners == 1:
        return function(num_learners, index, *arguments)
    torch.distributed.init_process_group(
        "gloo",
        init_method=f"file://{store}",
        rank=index,
        world_size=num_learners,
        timeout=timedelta(seconds=300),
    )
    try:
        return function(num_learners, index, *arguments)
    finally:
        torch.distributed.destroy_process_group()


def build_learner(directory: Path, num_learners: int, index: int, **settings: Any) -> GroupPolicyTorchLearner:
    """One of several learners, or the only one; `settings` as of `build_learner_group`."""
    if num_learners == 1:
        settings["sharding"] = None
    config, spec = learner_parts(directory, num_learners=num_learners if num_learners > 1 else 0, **settings)
    learner = GroupPolicyTorchLearner(config=config, module_spec=spec)
    learner._set_learner_index_and_placement_group(learner_index=index, placement_group=None)
    learner.build()
    return learner


def update(learner: GroupPolicyTorchLearner, rows: TokenRows) -> None:
    """One update, in which all learners must take part."""
    learner.update(batch=batch_of(rows), timesteps={})


def whole_weights(learner: GroupPolicyTorchLearner) -> dict[str, np.ndarray] | None:
    """All weights; of sharded learners only the first has them, and all must call this."""
    if learner._mesh is None:
        return learner.module.get_state()[DEFAULT_MODULE_ID]
    learner.gather(with_optimizers=False)
    weights = learner.module.get_state()[DEFAULT_MODULE_ID] if learner._learner_index == 0 else None
    learner.release()
    return weights


def save(learner: GroupPolicyTorchLearner, path: Path) -> None:
    """Writes a checkpoint, as a learner group does: the first learner for all, which must all call this."""
    if learner._mesh is not None:
        learner.gather(with_optimizers=True)
    if learner._learner_index == 0:
        learner.save_to_path(path)
    if learner._mesh is not None:
        learner.release()
