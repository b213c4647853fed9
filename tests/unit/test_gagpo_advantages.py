"""GAGPO's advantages: by hand, the paper's invariants, and a plain loop of the formulas."""

from __future__ import annotations

import doctest
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rllib_gigpo.algorithms.gagpo.advantages import gagpo_advantages
from rllib_gigpo.algorithms.gigpo.advantages import gigpo_advantages
from rllib_gigpo.algorithms.grpo.advantages import grpo_advantages

pytestmark = pytest.mark.unit

DOCS = Path(__file__).parents[2] / "docs" / "algorithms.md"

# The three trajectories of docs/algorithms.md: states 0 start, 1 door, 2 cellar.
BY_HAND = ([0, 8, 0, 0, 0, 0, 8], [0, 0, 1, 1, 2, 2, 2], [0] * 7, [0, 1, 0, 2, 0, 0, 1])


def random_rows(seed, groups=3, members=4, longest=6, states=4):
    """Columns (rewards, trajectory_ids, group_ids, anchor_ids) and `invalid` of random rollout groups."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, longest + 1, groups * members)
    trajectory_ids = np.repeat(np.arange(groups * members), lengths)
    rows = len(trajectory_ids)
    columns = (rng.normal(size=rows), trajectory_ids, trajectory_ids // members, rng.integers(0, states, rows))
    return columns, rng.random(rows) < 0.3


def last_rows(trajectory_ids):
    return np.append(trajectory_ids[1:] != trajectory_ids[:-1], True)


def by_loop(rewards, trajectory_ids, group_ids, anchor_ids, *, gamma, lambda_, invalid, penalty, terminated=None):
    """Unnormalized advantages, row by row."""
    rows = len(rewards)
    reward = [float(r) - penalty * bool(bad) for r, bad in zip(rewards, invalid, strict=True)]
    follows = [t + 1 < rows and trajectory_ids[t + 1] == trajectory_ids[t] for t in range(rows)]
    returns = [0.0] * rows
    for t in reversed(range(rows)):
        returns[t] = reward[t] + (gamma * returns[t + 1] if follows[t] else 0.0)
    members = defaultdict(list)
    for t in range(rows):
        members[group_ids[t], anchor_ids[t]].append(returns[t])
    value = [np.mean(members[group_ids[t], anchor_ids[t]]) for t in range(rows)]
    advantages = [0.0] * rows
    for t in reversed(range(rows)):
        cut_off = terminated is not None and not terminated[t]
        after = value[t + 1] if follows[t] else value[t] if cut_off else 0.0
        advantages[t] = reward[t] + gamma * after - value[t]
        advantages[t] += gamma * lambda_ * advantages[t + 1] if follows[t] else 0.0
    return np.array(advantages)


def test_the_example_of_the_documentation_runs():
    result = doctest.testfile(str(DOCS), module_relative=False, encoding="utf-8")
    assert result.attempted >= 8
    assert result.failed == 0


def test_three_trajectories_by_hand():
    estimate = gagpo_advantages(*BY_HAND, gamma=0.5, lambda_=0.5, normalize=False)
    assert estimate.returns.tolist() == [4, 8, 0, 0, 2, 4, 8]
    assert estimate.value.tolist() == [2.5, 8, 2.5, 0, 2.5, 2.5, 8]
    assert estimate.total.tolist() == [1.5, 0, -2.5, 0, -0.875, 1.5, 0]
    assert all(column.dtype == np.float32 for column in estimate)


def test_normalized_by_hand_over_the_steps_of_the_group():
    raw = np.array([1.5, 0, -2.5, 0, -0.875, 1.5, 0])
    mean = -0.375 / 7
    std = np.sqrt(((raw - mean) ** 2).sum() / 6)
    total = gagpo_advantages(*BY_HAND, gamma=0.5, lambda_=0.5).total
    np.testing.assert_allclose(total, (raw - mean) / (std + 1e-6), atol=1e-6)


def test_lambda_zero_is_the_one_step_error():
    estimate = gagpo_advantages(*BY_HAND, gamma=0.5, lambda_=0, normalize=False)
    assert estimate.total.tolist() == [1.5, 0, -2.5, 0, -1.25, 1.5, 0]


def test_an_invalid_action_costs_within_the_reward():
    """C's waiting is invalid: its reward −1 reaches V̄(start) through its own return 2 − 1 alone."""
    invalid = [False] * 4 + [True, False, False]
    estimate = gagpo_advantages(
        *BY_HAND, gamma=0.5, lambda_=0, normalize=False, invalid=invalid, invalid_action_penalty=1.0
    )
    assert estimate.returns.tolist() == [4, 8, 0, 0, 1, 4, 8]
    assert estimate.value.tolist() == [2.25, 8, 2.25, 0, 2.25, 2.25, 8]
    assert estimate.total.tolist() == [1.75, 0, -2.25, 0, -1 + 1.125 - 2.25, 1.75, 0]


def test_a_truncated_trajectory_continues_in_the_value_of_its_last_state():
    """B is cut off at the start: δ = 0.5 · V̄(start) − V̄(start)."""
    columns = ([0, 8, 0], [0, 0, 1], [0] * 3, [0, 1, 0])
    ended = gagpo_advantages(*columns, gamma=0.5, normalize=False)
    cut_off = gagpo_advantages(*columns, gamma=0.5, normalize=False, terminated=[False, True, False])
    assert ended.value.tolist() == cut_off.value.tolist() == [2, 8, 2]
    assert ended.total.tolist() == [2, 0, -2]
    assert cut_off.total.tolist() == [2, 0, -1]


def test_all_terminated_is_the_default():
    columns, invalid = random_rows(5)
    default = gagpo_advantages(*columns, invalid=invalid)
    explicit = gagpo_advantages(*columns, invalid=invalid, terminated=last_rows(columns[1]))
    assert np.array_equal(default.total, explicit.total)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.5, 0.95, 1.0]), st.sampled_from([0.0, 0.7, 1.0]), st.booleans())
def test_the_plain_loop_gives_the_same(seed, gamma, lambda_, truncates):
    columns, invalid = random_rows(seed)
    rng = np.random.default_rng(seed + 1)
    terminated = last_rows(columns[1]) & (rng.random(len(invalid)) < 0.5) if truncates else None
    options = {"gamma": gamma, "lambda_": lambda_, "invalid": invalid, "terminated": terminated}
    ours = gagpo_advantages(*columns, normalize=False, **options).total
    np.testing.assert_allclose(ours, by_loop(*columns, penalty=0.1, **options), atol=1e-5)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.9, 1.0]))
def test_with_lambda_one_it_is_gigpos_step_advantage_without_std(seed, gamma):
    """Invariant (a), which is also the Monte-Carlo ablation: Â = R_t − V̄(s_t)."""
    columns, invalid = random_rows(seed)
    ours = gagpo_advantages(*columns, gamma=gamma, lambda_=1.0, normalize=False, invalid=invalid)
    gigpo = gigpo_advantages(*columns, gamma=gamma, norm="mean", invalid=invalid)
    np.testing.assert_allclose(ours.total, gigpo.step, atol=1e-5)
    np.testing.assert_allclose(ours.total, ours.returns - ours.value, atol=1e-5)


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=60),
    st.floats(0, 1),
    st.floats(0, 1),
    st.booleans(),
)
def test_unique_states_give_exactly_zero(rewards, gamma, lambda_, normalize):
    """Invariant (b). Without the guard, normalization makes unit-sized advantages of rounding."""
    rows = np.arange(len(rewards))
    total = gagpo_advantages(
        rewards, rows // 10, rows // 30, rows, gamma=gamma, lambda_=lambda_, normalize=normalize
    ).total
    assert total.tolist() == [0.0] * len(rewards)


def test_long_trajectories_of_unique_states_give_exactly_zero():
    rng = np.random.default_rng(0)
    rewards = rng.normal(size=4000) * 10.0 ** rng.integers(-6, 6, 4000)
    rows = np.arange(4000)
    assert not gagpo_advantages(rewards, rows // 500, rows // 4000, rows).total.any()


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10_000), st.integers(2, 6))
def test_the_first_state_is_the_mean_over_at_least_all_members(seed, members):
    """Invariant (c): all members start in state 0, and some come back to it."""
    columns, _ = random_rows(seed, groups=2, members=members, states=3)
    rewards, trajectory_ids, group_ids, anchor_ids = columns
    first = np.append(True, trajectory_ids[1:] != trajectory_ids[:-1])
    anchor_ids[first] = 0
    estimate = gagpo_advantages(rewards, trajectory_ids, group_ids, anchor_ids)
    for group in range(2):
        peers = (group_ids == group) & (anchor_ids == 0)
        assert peers.sum() >= members
        # float32 sums of a handful of numbers around 1
        np.testing.assert_allclose(estimate.value[peers], estimate.returns[peers].mean(), atol=1e-5)


def test_a_time_limit_matters_only_where_it_is_told():
    """Invariant (d): the same rows, with and without the bootstrap."""
    columns, invalid = random_rows(11)
    none_terminated = np.zeros(len(invalid), bool)
    ended = gagpo_advantages(*columns, normalize=False)
    cut_off = gagpo_advantages(*columns, normalize=False, terminated=none_terminated)
    last = last_rows(columns[1])
    np.testing.assert_allclose((cut_off.total - ended.total)[last], 0.95 * ended.value[last], atol=1e-5)


def test_the_batch_shares_mean_and_std_where_asked():
    columns, invalid = random_rows(2)
    raw = gagpo_advantages(*columns, invalid=invalid, normalize=False).total.astype(np.float64)
    batch = gagpo_advantages(*columns, invalid=invalid, normalize_over="batch").total
    np.testing.assert_allclose(batch, (raw - raw.mean()) / (raw.std(ddof=1) + 1e-6), atol=1e-5)
    group = gagpo_advantages(*columns, invalid=invalid).total
    for index in range(3):
        rows = columns[2] == index
        expected = (raw[rows] - raw[rows].mean()) / (raw[rows].std(ddof=1) + 1e-6)
        np.testing.assert_allclose(group[rows], expected, atol=1e-5)


def test_the_std_floor_limits_small_differences():
    scaled = (np.array(BY_HAND[0]) * 1e-3, *BY_HAND[1:])
    raw = gagpo_advantages(*scaled, normalize=False).total
    floored = gagpo_advantages(*scaled, std_floor=1.0).total
    np.testing.assert_allclose(floored, raw - raw.mean(), atol=1e-6)
    assert np.abs(gagpo_advantages(*scaled).total).max() > 1


@pytest.mark.parametrize("normalize", [True, False])
def test_the_trajectory_term_is_grpos(normalize):
    columns, invalid = random_rows(4)
    alone = gagpo_advantages(*columns, invalid=invalid, normalize=normalize).total
    both = gagpo_advantages(*columns, invalid=invalid, normalize=normalize, trajectory_advantage_weight=0.5).total
    grpo = grpo_advantages(*columns[:3], invalid=invalid, norm="std" if normalize else "mean").total
    np.testing.assert_allclose(both, alone + 0.5 * grpo, atol=1e-5)


def test_without_rows():
    assert [len(column) for column in gagpo_advantages([], [], [], [], terminated=[])] == [0, 0, 0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gamma": 1.1}, "gamma is 1.1"),
        ({"lambda_": -0.1}, "lambda_ is -0.1"),
        ({"lambda_": float("nan")}, "lambda_ is nan"),
        ({"invalid_action_penalty": -1}, "invalid_action_penalty is -1"),
        ({"std_floor": float("inf")}, "std_floor is inf"),
        ({"normalize_over": "step"}, "normalize_over is 'step'"),
        ({"trajectory_advantage_weight": float("nan")}, "trajectory_advantage_weight is nan"),
        ({"terminated": [True]}, "terminated has 1 rows"),
        ({"terminated": [True, True, True]}, r"terminated\[0\] is True, but the trajectory goes on"),
        ({"terminated": [0.0, 1.0, 1.0]}, "terminated has dtype float64"),
    ],
)
def test_a_wrong_option_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        gagpo_advantages([1.0, 2.0, 3.0], [0, 0, 1], [0, 0, 0], [0, 1, 0], **options)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (([np.nan, 1], [0, 1], [0, 0], [0, 0]), r"rewards\[0\] is nan"),
        (([1, 1], [0, 1], [0, 0], [0, 0, 0]), "anchor_ids has 3 rows"),
        (([1, 1, 1], [0, 1, 0], [0, 0, 0], [0, 0, 0]), r"trajectory_ids\[2\] is 0, which had ended before"),
        (([1, 1], [0, 0], [0, 1], [0, 0]), r"group_ids\[1\] is 1"),
    ],
)
def test_a_wrong_column_is_named(columns, message):
    with pytest.raises(ValueError, match=message):
        gagpo_advantages(*columns)
