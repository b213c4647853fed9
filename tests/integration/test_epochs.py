"""Several epochs and mini-batches: the same number of steps on every learner, and every row once an epoch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rllib_gigpo.algorithms.group_policy.sharding import shard_rows
from tests.learner_cases import batch_of, build_learner_group, random_rows
from tests.tiny_models import save_tiny_model

pytestmark = pytest.mark.integration


def test_every_row_is_learned_from_once_an_epoch_and_all_learners_take_equal_numbers_of_steps(tmp_path: Path) -> None:
    group = build_learner_group(save_tiny_model(tmp_path / "model"), num_minibatches=4, num_epochs=3)
    # A row is known by its version. Three learners of 9 rows: uneven shards, and fewer rows than mini-batches.
    rows = replace(random_rows(9), weights_version=np.arange(9))
    orders = []
    for shard in shard_rows(rows, 3):
        batches = list(group._learner._mini_batches(batch_of(shard)))
        assert len(batches) == 4 * 3
        seen = [batch.policy_batches["default_policy"].weights_version.tolist() for batch in batches]
        epochs = [[row for batch in seen[4 * epoch : 4 * epoch + 4] for row in batch] for epoch in range(3)]
        assert all(sorted(epoch) == shard.weights_version.tolist() for epoch in epochs)
        assert sum(batch.count for batch in batches) == 3 * len(shard)
        orders.append(epochs)
    assert any(epochs[0] != epochs[1] for epochs in orders), "each epoch is shuffled anew"
