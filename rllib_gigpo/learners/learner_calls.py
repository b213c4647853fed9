"""Calls of all learners at once, from the driver, whose failures are raised at once and with their cause."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ray
from ray.exceptions import RayError
from ray.rllib.core.learner.learner_group import LearnerGroup

from rllib_gigpo.failures import failure_of
from rllib_gigpo.learners.learner_progress import ProgressWatch


def call_remote_learners(
    learner_group: LearnerGroup, method: str, arguments: Sequence[dict[str, Any]], *, action: str
) -> list[Any]:
    """What a method of each remote learner returns, in their order.

    Not by way of `LearnerGroup`: it waits for all learners, whatever happens to one of them.

    Args:
        learner_group: Of remote `ShardedTorchLearner`s; its config's learner_stall_timeout_s, in seconds, is read.
        method: Its name.
        arguments: Keyword arguments, for each learner.
        action: For messages, "learner 1 failed in its <action>".

    Raises:
        RuntimeError: A learner failed. It is raised at once, and ends all learners: those that wait for the failed one
            in a collective operation would otherwise do so until that times out.
        LearnerStalled: No learner has got any further for too long; it ends all of them too.
    """
    learners, timeout_s = learner_group._workers, learner_group.config.learner_stall_timeout_s
    watch = None if timeout_s is None else ProgressWatch(len(learners), timeout_s, action)
    calls = zip(learners, arguments, range(len(learners)), strict=True)
    if watch is None:
        answers = [getattr(learner, method).remote(**of_learner) for learner, of_learner, _ in calls]
    else:
        answers = [
            learner.call_reported.remote(method, watch.keys[index], watch.interval_s, **of_learner)
            for learner, of_learner, index in calls
        ]
    try:
        _wait(answers, watch, action)
    except Exception:
        for learner in learners:
            ray.kill(learner)
        raise
    finally:
        if watch is not None:
            watch.close()
    return ray.get(answers)


def _wait(answers: list[Any], watch: ProgressWatch | None, action: str) -> None:
    """Until all learners have answered. Raises as `call_remote_learners`."""
    pending = list(answers)
    while pending:
        done, pending = ray.wait(pending, timeout=None if watch is None else watch.interval_s)
        try:
            ray.get(done)
        except RayError as error:
            failure = failure_of(error)
            raise RuntimeError(
                f"learner {answers.index(done[0])} failed in its {action} ({failure.kind}: {failure.cause}): {error}"
            ) from error
        if watch is None:
            continue
        if done:
            watch.note_progress()
        watch.check([answers.index(answer) for answer in pending])
