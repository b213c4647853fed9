"""Token rows: packing, taking and joining ragged rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rllib_gigpo.rows import TokenRowBatch, TokenRows

pytestmark = pytest.mark.unit


def _rows(sizes: list[tuple[int, int]]) -> TokenRows:
    """Rows of (prompt, response) sizes; every token id is unique, log-prob m is −m, row t has advantage t."""
    ids = iter(range(10_000))
    prompts, responses = [], []
    for prompt, response in sizes:
        prompts.append(np.array([next(ids) for _ in range(prompt)]))
        responses.append(np.array([next(ids) for _ in range(response)]))
    logp = iter(range(10_000))
    return TokenRows.from_lists(
        prompts,
        responses,
        [np.array([-next(logp) for _ in r], np.float32) for r in responses],
        advantages=np.arange(len(sizes)),
        in_loss=np.arange(len(sizes)) % 2 == 0,
        weights_version=np.arange(len(sizes)) * 10,
    )


def _unpacked(rows: TokenRows) -> list[tuple[list[int], list[float], float, bool, int]]:
    ids = np.split(rows.token_ids, np.cumsum(rows.lengths)[:-1])
    logp = np.split(rows.rollout_logp, np.cumsum(rows.response_lengths)[:-1])
    columns = zip(ids, logp, rows.advantages, rows.in_loss, rows.weights_version, strict=True)
    return [(i.tolist(), p.tolist(), float(a), bool(n), int(v)) for i, p, a, n, v in columns]


def test_rows_are_packed_prompt_then_response() -> None:
    rows = TokenRows.from_lists(
        [np.array([1, 2]), np.array([3])],
        [np.array([4]), np.array([5, 6])],
        [np.array([-0.5]), np.array([-1.0, -2.0])],
    )
    assert rows.token_ids.tolist() == [1, 2, 4, 3, 5, 6]
    assert rows.lengths.tolist() == [3, 3]
    assert rows.response_lengths.tolist() == [1, 2]
    assert rows.rollout_logp.tolist() == [-0.5, -1.0, -2.0]
    assert (rows.num_tokens, rows.num_response_tokens, len(rows)) == (6, 3, 2)
    assert rows.token_ids.dtype == np.int32 and rows.rollout_logp.dtype == np.float32


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=1, max_size=8), st.data())
def test_take_keeps_every_column_of_a_row_together(sizes: list[tuple[int, int]], data: st.DataObject) -> None:
    rows = _rows(sizes)
    indices = data.draw(st.lists(st.integers(0, len(sizes) - 1), max_size=10))
    taken = rows.take(np.array(indices, np.int64))
    everything = _unpacked(rows)
    assert (_unpacked(taken) if indices else []) == [everything[i] for i in indices]


def test_take_moves_old_log_probs_with_their_rows() -> None:
    rows = _rows([(1, 2), (2, 1), (1, 3)])
    rows = rows.with_old_logp(rows.rollout_logp - 100)
    taken = rows.take(np.array([2, 0]))
    assert taken.old_logp is not None
    assert (taken.old_logp == taken.rollout_logp - 100).all()


def test_take_and_concat_move_reference_log_probs_with_their_rows() -> None:
    rows = _rows([(1, 2), (2, 1), (1, 3)])
    rows = rows.with_reference_logp(rows.rollout_logp - 7)
    joined = TokenRows.concat([rows.take(np.array([2])), rows.take(np.array([0]))])
    assert joined.reference_logp is not None
    assert joined.reference_logp.tolist() == [-10, -11, -12, -7, -8]


def test_concat_joins_what_take_split() -> None:
    rows = _rows([(1, 2), (2, 1), (1, 3)])
    joined = TokenRows.concat([rows.take(np.array([0])), rows.take(np.array([1, 2]))])
    assert _unpacked(joined) == _unpacked(rows)


def test_concat_refuses_old_log_probs_on_some_parts_only() -> None:
    rows = _rows([(1, 1)])
    with pytest.raises(ValueError, match="old_logp is set on 1 of 2 parts"):
        TokenRows.concat([rows, rows.with_old_logp(rows.rollout_logp)])


def test_concat_refuses_nothing() -> None:
    with pytest.raises(ValueError, match="nothing to concatenate"):
        TokenRows.concat([])


def test_no_rows_are_rows_too() -> None:
    empty = TokenRows.from_lists([], [], [])
    assert (len(empty), empty.num_tokens, empty.num_response_tokens) == (0, 0, 0)
    assert len(empty.take(np.zeros(0, np.int64))) == 0
    assert len(TokenRows.concat([empty, _rows([(1, 1)])])) == 1


def test_empty_prompts_and_responses_are_refused() -> None:
    with pytest.raises(ValueError, match="row 1 has 1 prompt and 0 response tokens"):
        TokenRows.from_lists(
            [np.array([1]), np.array([1])], [np.array([2]), np.array([], int)], [np.zeros(1), np.zeros(0)]
        )


def test_a_missing_log_prob_is_refused() -> None:
    with pytest.raises(ValueError, match="row 0 has 2 response tokens and 1 log-probabilities"):
        TokenRows.from_lists([np.array([1])], [np.array([2, 3])], [np.zeros(1)])


def test_old_log_probs_of_another_length_are_refused() -> None:
    with pytest.raises(ValueError, match="old_logp has shape"):
        _rows([(1, 2)]).with_old_logp(np.zeros(3, np.float32))
    with pytest.raises(ValueError, match="reference_logp has shape"):
        _rows([(1, 2)]).with_reference_logp(np.zeros(3, np.float32))


def test_a_batch_carries_rows_by_module_and_counts_environment_steps() -> None:
    rows = _rows([(1, 1), (1, 2)])
    batch = TokenRowBatch({"policy": rows}, env_steps=2)
    assert batch.policy_batches["policy"] is rows
    assert batch.env_steps() == 2


def test_first_response_tokens_keep_prompts_and_one_value_of_each_column() -> None:
    rows = _rows([(2, 3), (1, 1), (3, 2)])
    rows = rows.with_response_columns(values=np.arange(6, dtype=np.float32), value_targets=-rows.rollout_logp)
    cut = rows.first_response_tokens()
    # Ids count up from 0, prompt then response.
    assert cut.token_ids.tolist() == [0, 1, 2, 5, 6, 7, 8, 9, 10]
    assert (cut.lengths.tolist(), cut.response_lengths.tolist()) == ([3, 2, 4], [1, 1, 1])
    assert cut.rollout_logp.tolist() == [0, -3, -4]
    assert cut.values is not None and cut.values.tolist() == [0, 3, 4]
    assert cut.value_targets is not None and cut.value_targets.tolist() == [0, 3, 4]
    assert cut.old_logp is None
    assert cut.advantages.tolist() == rows.advantages.tolist()
    assert len(_rows([]).first_response_tokens()) == 0


def test_columns_of_response_tokens_are_checked() -> None:
    rows = _rows([(2, 3), (1, 1)])
    with pytest.raises(ValueError, match=r"values has shape \(2,\), the rows have \(4,\) response tokens"):
        rows.with_response_columns(values=np.zeros(2, np.float32))
    with pytest.raises(ValueError, match="'lengths' is no column of response tokens"):
        rows.with_response_columns(lengths=np.zeros(4, np.float32))
