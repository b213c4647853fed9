"""Calls of all learners at once, from the driver, whose failures are raised at once and with their cause."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ray
from ray.exceptions import RayError
from ray.rllib.core.learner.learner_group import LearnerGroup

from rllib_gigpo.failures import failure_of


def call_remote_learners(
    learner_group: LearnerGroup, method: str, arguments: Sequence[dict[str, Any]], *, action: str
) -> list[Any]:
    """What a method of each remote learner returns, in their order.

    Not by way of `LearnerGroup`: it waits for all learners, whatever happens to one of them.

    Args:
        learner_group: Of remote learners.
        method: Its name.
        arguments: Keyword arguments, for each learner.
        action: For messages, "learner 1 failed in its <action>".

    Raises:
        RuntimeError: A learner failed. It is raised at once, and ends all learners: those that wait for the failed one
            in a collective operation would otherwise do so until that times out.
    """
    answers = [
        getattr(learner, method).remote(**of_learner)
        for learner, of_learner in zip(learner_group._workers, arguments, strict=True)
    ]
    pending = list(answers)
    while pending:
        (done,), pending = ray.wait(pending)
        try:
            ray.get(done)
        except RayError as error:
            for learner in learner_group._workers:
                ray.kill(learner)
            failure = failure_of(error)
            raise RuntimeError(
                f"learner {answers.index(done)} failed in its {action} ({failure.kind}: {failure.cause}): {error}"
            ) from error
    return ray.get(answers)
