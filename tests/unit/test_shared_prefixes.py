"""Rows as tries: which rows meet in a pass, and what a trie holds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rllib_gigpo.learners.micro_batches import micro_batches
from rllib_gigpo.learners.packed_rows import pack_rows
from rllib_gigpo.learners.shared_prefixes import (
    LEAST_SAVING,
    TrieRows,
    pack_trie,
    shared_lengths,
    split_into_passes,
    trie_order,
)
from rllib_gigpo.rows import TokenRows

pytestmark = pytest.mark.unit

# Of three tokens, so that rows often share; prompt and response of at least one token each.
_TOKENS = st.lists(st.integers(0, 2), min_size=1, max_size=12)
_ROWS = st.lists(st.tuples(_TOKENS, _TOKENS), min_size=1, max_size=12)


def _rows(pairs: list[tuple[list[int], list[int]]]) -> TokenRows:
    prompts, responses = zip(*pairs, strict=True)
    return TokenRows.from_lists(
        [np.array(prompt) for prompt in prompts],
        [np.array(response) for response in responses],
        [np.zeros(len(response)) for response in responses],
    )


def _ids_of_rows(rows: TokenRows) -> list[list[int]]:
    return [ids.tolist() for ids in np.split(rows.token_ids, np.cumsum(rows.lengths)[:-1])]


def _seen(trie: TrieRows) -> list[list[int]]:
    """Of each token of a trie, those that it attends to, in their order."""
    queries = np.concatenate([part.queries.ravel() for part in trie.attention])
    seen = [
        keys[of_query].tolist()
        for part in trie.attention
        for keys, mask in zip(part.keys, part.mask[:, 0], strict=True)
        for of_query in mask
    ]
    assert queries[trie.attended_index].tolist() == list(range(trie.input_ids.size))
    return [seen[index] for index in trie.attended_index]


@settings(deadline=None, max_examples=100)
@given(_ROWS, st.booleans())
def test_each_token_of_a_trie_sees_the_tokens_before_it_in_its_row_and_no_others(
    pairs: list[tuple[list[int], list[int]]], is_sorted: bool
) -> None:
    rows = _rows(pairs)
    rows = rows.take(trie_order(rows)) if is_sorted else rows
    trie = pack_trie(rows)
    seen = _seen(trie)
    ids, responses, index = trie.input_ids[0], iter(trie.response_index.tolist()), -1
    for token, of_token in enumerate(seen):
        assert of_token[-1] == token
        assert trie.position_ids[0, token] == len(of_token) - 1
        # Its ancestors see what it sees of them: whatever is computed for a prefix is the same in all of its rows.
        assert all(seen[earlier] == of_token[: place + 1] for place, earlier in enumerate(of_token))
    for row, length in zip(_ids_of_rows(rows), rows.response_lengths.tolist(), strict=True):
        of_row = [next(responses) for _ in range(length)]
        for place, before in zip(range(len(row) - length, len(row)), of_row, strict=True):
            assert ids[seen[before]].tolist() == row[:place]
            assert trie.response_ids[index := index + 1] == row[place]
    assert index == rows.num_response_tokens - 1


@settings(deadline=None, max_examples=50)
@given(_ROWS)
def test_a_sorted_trie_has_one_token_for_every_distinct_prefix(pairs: list[tuple[list[int], list[int]]]) -> None:
    rows = _rows(pairs)
    prefixes = {tuple(row[: end + 1]) for row in _ids_of_rows(rows) for end in range(len(row))}
    assert pack_trie(rows.take(trie_order(rows))).input_ids.size == len(prefixes)


def test_rows_are_ordered_by_their_numbers_and_not_by_bytes() -> None:
    rows = _rows([([256], [1]), ([1, 2], [1]), ([1], [1]), ([255], [1])])
    assert trie_order(rows).tolist() == [2, 1, 3, 0]
    assert shared_lengths(rows.take(trie_order(rows))).tolist() == [0, 1, 0, 0]


@settings(deadline=None, max_examples=50)
@given(_ROWS, st.integers(1, 80), st.booleans(), st.booleans())
def test_passes_hold_each_row_once_within_the_budget(
    pairs: list[tuple[list[int], list[int]]], budget: int, share: bool, pack: bool
) -> None:
    rows = _rows(pairs)
    passes = split_into_passes(rows, budget, share_prefixes=share, pack=pack)
    assert sorted(row for part, _ in passes for row in part.tolist()) == list(range(len(rows)))
    for part, layout in passes:
        in_pass = rows.lengths[part].sum() if layout == "packed" else rows.lengths[part].max() * len(part)
        assert len(part) == 1 or in_pass <= budget
        assert layout != ("padded" if pack else "packed")
        if layout == "trie":
            assert share
            assert rows.lengths[part].sum() >= LEAST_SAVING * pack_trie(rows.take(part)).input_ids.size


def test_rows_that_share_meet_and_the_others_go_by_length() -> None:
    rng = np.random.default_rng(0)
    alone = [(rng.integers(10, 10_000, 30).tolist(), [1]) for _ in range(8)]
    alike = [([5] * 30, [index]) for index in range(8)]
    mixed = [pair for pairs in zip(alone, alike, strict=True) for pair in pairs]
    passes = split_into_passes(_rows(mixed), 31 * 4, share_prefixes=True)
    tries = [part for part, layout in passes if layout == "trie"]
    assert sorted(np.concatenate(tries).tolist()) == [1, 3, 5, 7, 9, 11, 13, 15]
    assert [len(part) for part, layout in passes if layout == "padded"] == [4, 4]


def test_rows_without_common_prefixes_are_split_as_they_are_without_sharing() -> None:
    rng = np.random.default_rng(0)
    rows = _rows([(rng.integers(0, 10_000, size).tolist(), [1, 2]) for size in rng.integers(1, 40, 30)])
    passes = split_into_passes(rows, 100, share_prefixes=True)
    expected = micro_batches(rows.lengths, 100)
    assert [part.tolist() for part, _ in passes] == [group.tolist() for group in expected]
    assert all(layout == "padded" for _, layout in passes)


def test_packed_passes_are_filled_with_rows_of_similar_length() -> None:
    rows = _rows([([1] * size, [2]) for size in (9, 1, 4, 4, 30, 2)])
    passes = split_into_passes(rows, 12, share_prefixes=False, pack=True)
    assert [part.tolist() for part, _ in passes] == [[1, 5, 2], [3], [0], [4]]


@settings(deadline=None, max_examples=50)
@given(_ROWS)
def test_packed_rows_hold_every_row_as_it_is(pairs: list[tuple[list[int], list[int]]]) -> None:
    rows = _rows(pairs)
    packed = pack_rows(rows)
    assert [length for count, length in packed.runs for _ in range(count)] == rows.lengths.tolist()
    assert all(one[1] != other[1] for one, other in itertools.pairwise(packed.runs))
    assert packed.input_ids[0].tolist() == rows.token_ids.tolist()
    assert packed.position_ids[0].tolist() == [place for length in rows.lengths for place in range(length)]
    assert packed.attention_mask.shape == packed.input_ids.shape and packed.attention_mask.all()
    assert packed.input_ids[0, packed.response_index + 1].tolist() == packed.response_ids.tolist()
    assert packed.response_ids.tolist() == [token for _, response in pairs for token in response]


def test_no_rows_make_no_pass() -> None:
    assert split_into_passes(TokenRows.from_lists([], [], []), 10, share_prefixes=True) == []
