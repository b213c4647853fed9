"""Splitting rows into mini-batches and micro-batches, and padding them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rllib_gigpo.learners.micro_batches import micro_batches, mini_batches, pad_rows
from rllib_gigpo.rows import TokenRows

pytestmark = pytest.mark.unit


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 40), st.integers(1, 12), st.integers(0, 1000))
def test_mini_batches_hold_each_row_once_and_differ_by_at_most_one_row(num_rows: int, count: int, seed: int) -> None:
    parts = mini_batches(num_rows, count, np.random.default_rng(seed))
    assert len(parts) == count
    assert sorted(np.concatenate(parts).tolist()) == list(range(num_rows))
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1


def test_mini_batches_are_shuffled_by_the_generator_alone() -> None:
    first, again, other = (mini_batches(30, 3, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert all((a == b).all() for a, b in zip(first, again, strict=True))
    assert any((a != b).any() for a, b in zip(first, other, strict=True))


def test_a_single_mini_batch_keeps_the_order_of_its_rows() -> None:
    (only,) = mini_batches(5, 1, np.random.default_rng(0))
    assert only.tolist() == [0, 1, 2, 3, 4]


def test_no_mini_batch_at_all_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        mini_batches(5, 0, np.random.default_rng(0))


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(1, 50), max_size=40), st.integers(1, 200))
def test_micro_batches_hold_each_row_once_within_the_budget(lengths: list[int], budget: int) -> None:
    array = np.array(lengths, np.int64)
    groups = micro_batches(array, budget)
    assert sorted(i for group in groups for i in group.tolist()) == list(range(len(lengths)))
    for group in groups:
        assert len(group) == 1 or array[group].max() * len(group) <= budget


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(1, 50), min_size=1, max_size=40), st.integers(1, 200))
def test_micro_batches_are_greedy_over_sorted_rows(lengths: list[int], budget: int) -> None:
    array = np.array(lengths, np.int64)
    groups = micro_batches(array, budget)
    flat = array[np.concatenate(groups)]
    assert (np.diff(flat) >= 0).all()
    for group, following in pairwise(groups):
        assert (len(group) + 1) * array[following[0]] > budget, "one more row would have fitted"


def test_a_row_longer_than_the_budget_goes_alone() -> None:
    assert [group.tolist() for group in micro_batches(np.array([90, 2, 100, 3]), 10)] == [[1, 3], [0], [2]]


def test_no_rows_make_no_micro_batch() -> None:
    assert micro_batches(np.zeros(0, np.int64), 10) == []


def test_a_budget_without_tokens_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        micro_batches(np.array([1]), 0)


def test_padding_is_on_the_left_and_every_index_points_at_its_response_token() -> None:
    prompts = [np.array([1, 2, 3]), np.array([4]), np.array([5, 6])]
    responses = [np.array([11]), np.array([12, 13, 14]), np.array([15, 16])]
    rows = TokenRows.from_lists(prompts, responses, [np.zeros(len(r)) for r in responses])
    padded = pad_rows(rows.take(np.array([0, 1, 2])), pad_id=0)
    assert padded.input_ids.tolist() == [[1, 2, 3, 11], [4, 12, 13, 14], [5, 6, 15, 16]]
    assert padded.attention_mask.all()
    assert padded.response_columns == 3
    assert padded.response_ids.tolist() == [11, 12, 13, 14, 15, 16]
    last_columns = padded.input_ids[:, -padded.response_columns :]
    assert last_columns.flatten()[padded.response_index].tolist() == padded.response_ids.tolist()


def test_positions_start_at_the_first_token_of_a_row() -> None:
    rows = TokenRows.from_lists(
        [np.array([7]), np.array([1, 2])], [np.array([8]), np.array([3, 4])], [np.zeros(1), np.zeros(2)]
    )
    padded = pad_rows(rows, pad_id=99)
    assert padded.input_ids.tolist() == [[99, 99, 7, 8], [1, 2, 3, 4]]
    assert padded.attention_mask.tolist() == [[0, 0, 1, 1], [1, 1, 1, 1]]
    assert padded.position_ids.tolist() == [[0, 0, 0, 1], [0, 1, 2, 3]]
    assert padded.response_index.tolist() == [1, 2, 3]
