"""One update of all learners from the token rows of an iteration."""

from __future__ import annotations

from typing import Any

import ray
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.learner.learner_group import LearnerGroup
from ray.rllib.utils.typing import ResultDict

from rllib_gigpo.algorithms.group_policy.sharding import shard_rows
from rllib_gigpo.learners.learner_calls import call_remote_learners
from rllib_gigpo.rows import TokenRowBatch, TokenRows


def update_learners(
    learner_group: LearnerGroup, rows: TokenRows, *, timesteps: dict[str, Any] | None = None
) -> list[ResultDict]:
    """Has every learner update on its shard of `rows`.

    Args:
        learner_group: The learners.
        rows: All rows, advantages set.
        timesteps: Read by learning rate schedules.

    Returns:
        Each learner's metrics.

    Raises:
        RuntimeError: A learner failed. It is raised at once, and ends all learners: those that wait for the failed one
            in a collective operation would otherwise do so until that times out.
        LearnerStalled: Remote learners get no further, see `call_remote_learners`.
    """
    if learner_group.is_local:
        return learner_group.update(batch=_batch(rows.by_module(DEFAULT_MODULE_ID)), timesteps=timesteps or {})

    num_learners = len(learner_group)
    of_module = {id_: shard_rows(own, num_learners) for id_, own in rows.by_module(DEFAULT_MODULE_ID).items()}
    arguments = [
        {
            "batch": ray.put(_batch({id_: shard[learner] for id_, shard in of_module.items()})),
            "timesteps": timesteps or {},
        }
        for learner in range(num_learners)
    ]
    return call_remote_learners(learner_group, "update", arguments, action="update")


def _batch(rows: dict[str, TokenRows]) -> TokenRowBatch:
    return TokenRowBatch(rows, env_steps=sum(len(own) for own in rows.values()))
