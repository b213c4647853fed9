"""Building blocks of credit assignment against hand-computed numbers and plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rllib_gigpo.algorithms.group_policy.advantage_math import (
    as_float32,
    dense_index,
    discounted_sums,
    normalize_within,
    pair_index,
    statistics_within,
    step_table,
)

pytestmark = pytest.mark.unit


def returns_by_loop(values, lengths, factor):
    out = []
    start = 0
    for length in lengths:
        tail, rows = 0.0, []
        for value in reversed(values[start : start + length]):
            tail = value + factor * tail
            rows.append(tail)
        out += reversed(rows)
        start += length
    return np.array(out)


def test_discounted_sums_of_two_trajectories_by_hand():
    sums = discounted_sums(np.array([1.0, 2.0, 4.0, 8.0, 16.0]), np.array([3, 2]), 0.5)
    assert sums.tolist() == [1 + 0.5 * 2 + 0.25 * 4, 2 + 0.5 * 4, 4, 8 + 0.5 * 16, 16]


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(1, 70), min_size=1, max_size=6), st.sampled_from([0.0, 0.3, 0.95, 1.0]), st.integers(0, 99))
def test_discounted_sums_equal_the_backward_loop(lengths, factor, seed):
    values = np.random.default_rng(seed).normal(size=sum(lengths))
    np.testing.assert_allclose(
        discounted_sums(values, np.array(lengths), factor), returns_by_loop(values, lengths, factor), rtol=0, atol=1e-12
    )


def test_discounted_sums_of_a_very_long_trajectory_neither_overflow_nor_lose_the_tail():
    sums = discounted_sums(np.ones(100_000), np.array([100_000]), 0.95)
    assert sums[0] == pytest.approx(20.0, abs=1e-9)  # 1 / (1 − 0.95)
    assert sums[-1] == 1.0
    undiscounted = discounted_sums(np.ones(100_000), np.array([100_000]), 1.0)
    assert undiscounted.tolist() == list(range(100_000, 0, -1))


def test_equal_reward_tails_give_bitwise_equal_returns_wherever_they_stand():
    tail = np.random.default_rng(0).normal(size=37)
    sums = discounted_sums(np.concatenate([np.ones(5), tail, tail]), np.array([42, 37]), 0.97)
    assert np.array_equal(sums[5:42], sums[42:])


def test_statistics_by_hand_with_a_mean_that_would_swallow_a_one_pass_variance():
    statistics = statistics_within(np.array([1e9, 1e9 + 2, 3.0, 1e9 + 4, -3.0]), np.array([0, 0, 1, 0, 1]))
    assert statistics.members.tolist() == [3, 2]
    assert statistics.mean.tolist() == [1e9 + 2, 0.0]
    assert statistics.std.tolist() == pytest.approx([2.0, np.sqrt(18.0)], rel=1e-12)
    assert statistics.constant.tolist() == [True, False]  # a spread of 4 is nothing to 1e9


def test_normalize_within_by_hand():
    values, keys = np.array([0.0, 10.0, 5.0, 7.0]), np.array([0, 0, 1, 0])
    mean = 17 / 3
    std = np.sqrt(((0 - mean) ** 2 + (10 - mean) ** 2 + (7 - mean) ** 2) / 2)
    centred = np.array([0 - mean, 10 - mean, 0, 7 - mean])
    np.testing.assert_allclose(normalize_within(values, keys, norm="mean"), centred, atol=1e-12)
    np.testing.assert_allclose(normalize_within(values, keys, norm="std"), centred / (std + 1e-6), atol=1e-12)
    floored = normalize_within(values, keys, norm="std", std_floor=20.0)
    np.testing.assert_allclose(floored, centred / (20.0 + 1e-6), atol=1e-12)


@pytest.mark.parametrize("norm", ["std", "mean"])
def test_the_spread_tolerance_is_relative_to_the_largest_member(norm):
    within, beyond = np.array([1000.0, 1000.0 + 0.9e-3]), np.array([1000.0, 1000.0 + 1.1e-3])
    assert normalize_within(within, np.zeros(2, np.int64), norm=norm).tolist() == [0.0, 0.0]
    assert np.all(normalize_within(beyond, np.zeros(2, np.int64), norm=norm) != 0)
    tiny = np.array([0.0, 1e-9])  # small numbers are not equal because they are small
    assert np.all(normalize_within(tiny, np.zeros(2, np.int64), norm=norm) != 0)


def test_pair_index_is_equal_exactly_where_both_are():
    assert pair_index(np.array([0, 0, 1, 1, 0]), np.array([0, 1, 0, 1, 1])).tolist() == [0, 1, 2, 3, 1]
    assert dense_index(np.array([7, -3, 7])).tolist() == [1, 0, 1]


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.integers(-3, 60), st.integers(0, 5)), min_size=1, max_size=40))
def test_indices_are_ranks_whether_ids_are_nearly_dense_or_not(pairs):
    ids, others = np.array(pairs, np.int64).T
    for column in (ids, ids * 10**12, others):
        assert dense_index(column).tolist() == [sorted(set(column.tolist())).index(i) for i in column.tolist()]
    index = pair_index(dense_index(ids), dense_index(others))
    assert sorted(set(index.tolist())) == list(range(len(set(pairs))))
    assert all((index[i] == index[j]) == (a == b) for i, a in enumerate(pairs) for j, b in enumerate(pairs))


def test_as_float32_saturates():
    assert as_float32(np.array([1e60, -1e60, 1.5])).tolist() == [
        np.finfo(np.float32).max,
        np.finfo(np.float32).min,
        1.5,
    ]


def test_step_table_takes_strings_and_unsorted_ids():
    table = step_table([1, 2, 3, 4], ["b", "b", "a", "c"], [9, 9, -1, 9])
    assert table.trajectory.tolist() == [0, 0, 1, 2]
    assert table.lengths.tolist() == [2, 1, 1]
    assert table.group.tolist() == [1, 1, 0, 1]
    assert table.trajectory_group.tolist() == [1, 0, 1]
    assert table.rewards.dtype == np.float64
    assert not table.invalid.any()


def test_step_table_without_rows():
    table = step_table([], [], [])
    assert len(table.rewards) == len(table.lengths) == len(table.group) == 0


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (([1, np.nan], [0, 0], [0, 0]), r"rewards\[1\] is nan"),
        (([np.inf, 1], [0, 0], [0, 0]), r"rewards\[0\] is inf"),
        (([0, 1e39], [0, 0], [0, 0]), r"rewards\[1\] is 1e\+39"),
        (([[1, 2]], [0], [0]), r"rewards has shape \(1, 2\)"),
        ((["a", "b"], [0, 0], [0, 0]), r"rewards has dtype"),
        (([1, 2], [0, 0, 0], [0, 0]), r"trajectory_ids has 3 rows, rewards has 2"),
        (([1, 2], [0, 0], [0]), r"group_ids has 1 rows"),
        (([1, 2], [0.5, 0], [0, 0]), r"trajectory_ids has dtype float64"),
        (([1, 2, 3], [0, 1, 0], [0, 0, 0]), r"trajectory_ids\[2\] is 0, which had ended before"),
        (([1, 2, 3], [4, 4, 4], [0, 0, 1]), r"group_ids\[2\] is 1, but trajectory 4 began in group 0"),
        (([1, 2], [0, 0], [0, 0], [True]), r"invalid has 1 rows"),
        (([1, 2], [0, 0], [0, 0], [0.0, 1.0]), r"invalid has dtype float64"),
    ],
)
def test_step_table_names_the_column_and_the_row(columns, message):
    with pytest.raises(ValueError, match=message):
        step_table(*columns)
