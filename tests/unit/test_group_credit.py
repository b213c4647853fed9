import numpy as np
import pytest

from rllib_gigpo.algorithms.gagpo.advantages import gagpo_advantages
from rllib_gigpo.algorithms.group_policy.group_credit import advantages_of_modules, credit_metrics, has_signal
from rllib_gigpo.algorithms.group_policy.sharding import shard_rows
from rllib_gigpo.algorithms.reinforce.advantages import reinforce_plus_plus_advantages
from rllib_gigpo.rows import StepRows, TokenRows

pytestmark = pytest.mark.unit


def test_one_row_with_an_advantage_gives_its_whole_group_a_signal():
    advantages = np.array([0, 0, 0.5, 0, 0], np.float32)
    groups = np.array([7, 7, 3, 3, 9])
    assert has_signal(advantages, groups).tolist() == [False, False, True, True, False]


def test_credit_metrics_count_groups_not_rows():
    metrics = credit_metrics(np.array([0, 0, 0, 2, -2], np.float32), np.array([1, 1, 1, 2, 2]))
    assert metrics["num_groups"] == 2
    assert metrics["zero_signal_share"] == 0.5
    assert metrics["advantage_abs_max"] == 2
    assert metrics["advantage_iqr"] == 0
    assert metrics["advantage_above_one_share"] == pytest.approx(2 / 5)
    assert credit_metrics(np.zeros(0, np.float32), np.zeros(0, np.int64)) == {}


@pytest.mark.parametrize(
    "compute",
    [
        lambda r: reinforce_plus_plus_advantages(r.rewards, r.trajectory_ids, r.group_ids).total,
        lambda r: (
            gagpo_advantages(r.rewards, r.trajectory_ids, r.group_ids, r.anchor_ids, normalize_over="batch").total
        ),
    ],
    ids=["REINFORCE++", "GAGPO over the batch"],
)
def test_what_is_normalized_over_the_batch_is_so_over_the_steps_of_one_module(compute):
    """Two modules take turns; the second one's rewards are a hundred times those of the first, and shifted."""
    rng = np.random.default_rng(0)
    trajectories = np.repeat(np.arange(12), 3)
    second = trajectories % 2 == 1
    rewards = rng.normal(size=36).astype(np.float32)
    rows = StepRows(
        rewards=np.where(second, 100 * rewards + 500, rewards).astype(np.float32),
        invalid=np.zeros(36, bool),
        trajectory_ids=trajectories,
        group_ids=trajectories % 2,
        anchor_ids=rng.integers(0, 3, 36),
        terminated=np.zeros(36, bool),
        response_lengths=np.ones(36, np.int64),
    )
    together = advantages_of_modules(rows, [np.arange(36)], compute)
    apart = advantages_of_modules(rows, [np.flatnonzero(~second), np.flatnonzero(second)], compute)
    for own in (~second, second):
        np.testing.assert_allclose((apart[own].mean(), apart[own].std(ddof=1)), (0, 1), atol=1e-5)
    assert together[~second].std() < 0.1 * together[second].std(), "or the test shows nothing"


def rows_of(lengths: list[int]) -> TokenRows:
    """Rows whose first token is their number, with one response token each."""
    return TokenRows.from_lists(
        [np.full(length - 1, i) for i, length in enumerate(lengths)],
        [np.array([i]) for i in range(len(lengths))],
        [np.array([-0.5]) for _ in lengths],
    )


def test_shards_hold_every_row_once_and_about_equal_tokens():
    rng = np.random.default_rng(0)
    rows = rows_of(rng.integers(2, 200, 101).tolist())
    shards = shard_rows(rows, 3)
    found = [token for shard in shards for token in shard.token_ids[np.cumsum(shard.lengths) - 1]]
    assert sorted(found) == list(range(101))
    tokens = [shard.num_tokens for shard in shards]
    # Longest first to the emptiest: no shard is ahead by more than one row.
    assert max(tokens) - min(tokens) <= 200


def test_more_shards_than_rows_leaves_empty_shards():
    shards = shard_rows(rows_of([5, 3]), 4)
    assert sorted(len(shard) for shard in shards) == [0, 0, 1, 1]


def test_the_interquartile_range_is_over_step_rows():
    advantages = np.arange(9, dtype=np.float32)
    assert credit_metrics(advantages, np.zeros(9, np.int64))["advantage_iqr"] == 4
