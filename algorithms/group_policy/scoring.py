"""The scoring stage: what credit assignment needs of the learners' models, computed once, before the update.

It lies between the group connector and the advantages. An algorithm names what it needs (`GroupPolicyConfig.scores`);
the learners compute it for their shards without gradients, and light arrays come back. The update takes them from the
rows, and computes nothing of it again.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import ray
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.learner.learner_group import LearnerGroup

from rllib_gigpo.algorithms.group_policy.sharding import shard_indices
from rllib_gigpo.learners.learner_calls import call_remote_learners
from rllib_gigpo.rows import TokenRowBatch, TokenRows, packed_indices

# Columns of TokenRows that learners can compute.
OLD_LOGP = "old_logp"
REFERENCE_LOGP = "reference_logp"
VALUES = "values"


def score_rows(learner_group: LearnerGroup, rows: TokenRows, scores: Collection[str]) -> TokenRows:
    """The rows with the columns `scores`, each row's computed by its own module.

    Args:
        learner_group: Local, or any number of learners: each scores a shard of about the same number of tokens.
        rows: All rows; their order stays.
        scores: Out of OLD_LOGP, REFERENCE_LOGP and VALUES.

    Raises:
        RuntimeError: A remote learner failed, or they get no further; see `call_remote_learners`.
    """
    modules = rows.rows_of_modules(DEFAULT_MODULE_ID).keys()
    if learner_group.is_local:
        shards = [np.arange(len(rows))]
        answers = [learner_group._learner.score(_batch(rows, modules), scores)]
    else:
        shards = shard_indices(rows, len(learner_group))
        arguments = [
            {"batch": ray.put(_batch(rows.take(shard), modules)), "columns": tuple(scores)} for shard in shards
        ]
        answers = call_remote_learners(learner_group, "score", arguments, action="scoring")
    columns = {name: np.empty(rows.num_response_tokens, np.float32) for name in scores}
    for shard, answer in zip(shards, answers, strict=True):
        for module_id, of_module in rows.take(shard).rows_of_modules(DEFAULT_MODULE_ID).items():
            tokens = packed_indices(rows.response_lengths, shard[of_module])
            for name, column in columns.items():
                column[tokens] = answer[module_id][name]
    return rows.with_response_columns(**columns)


def _batch(rows: TokenRows, modules: Collection[str]) -> TokenRowBatch:
    """The rows of all `modules`, also of those without any here: through a sharded model all learners go, or none."""
    of_modules = {id_: TokenRows.from_lists([], [], []) for id_ in modules} | rows.by_module(DEFAULT_MODULE_ID)
    return TokenRowBatch(of_modules, env_steps=len(rows))
