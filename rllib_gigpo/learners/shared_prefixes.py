"""Rows that begin with the same tokens, as one sequence that holds each shared prefix once: a trie of rows.

Rows are put into the order of their tokens, in which each shares with its predecessor whatever it shares with any row
before it. Its own tokens, behind that prefix, are the only ones that a forward pass computes for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from rllib_gigpo.learners.micro_batches import micro_batches
from rllib_gigpo.learners.packed_rows import packed_micro_batches
from rllib_gigpo.rows import TokenRows

# How the rows of a pass lie: in a rectangle (`pad_rows`), one behind the other (`pack_rows`), or as a trie, with each
# shared prefix once (`pack_trie`).
Layout = Literal["padded", "packed", "trie"]

# A pass over a trie gathers keys and values for each row, layer by layer. Below this ratio of the rows' tokens to the
# trie's that takes more time than is saved: benchmarks/shared_prefixes.py.
LEAST_SAVING = 1.1
# Queries of rows are padded to rectangles for the attention, each for rows of similar numbers of own tokens.
_FEW_TOKENS = 16


class MicroBatch(NamedTuple):
    """The rows of one forward pass.

    Attributes:
        rows: int64[K], their indices.
        layout: How they lie.
    """

    rows: np.ndarray
    layout: Layout


def split_into_passes(
    rows: TokenRows, token_budget: int, *, share_prefixes: bool, pack: bool = False
) -> list[MicroBatch]:
    """Splits rows into micro-batches: where rows share prefixes, so that those which do meet; the others by length.

    Args:
        rows: T rows without images.
        token_budget: Tokens of a micro-batch's rows, padded to its longest one, also where sharing makes them fewer: so
            a pass over a trie takes no more memory than one over padded rows. A row longer than that goes alone.
        share_prefixes: False: all rows by length.
        pack: Whether rows that go by length are packed, as `packed_micro_batches` groups them, or padded, as
            `micro_batches` does.

    Returns:
        Micro-batches of at least one row, each row in one of them.
    """
    if not share_prefixes or len(rows) < 2:
        return _by_length(rows.lengths, np.arange(len(rows)), token_budget, pack)
    order = trie_order(rows)
    own_tokens = rows.lengths[order] - shared_lengths(rows.take(order))
    tries: list[np.ndarray] = []
    alone = [order[:0]]
    for start, end in _runs_within(rows.lengths[order], token_budget):
        group = order[start:end]
        tokens = rows.lengths[group].sum()
        # The first row of a run has all of its tokens to itself.
        trie_tokens = own_tokens[start + 1 : end].sum() + rows.lengths[group[0]]
        (tries if tokens >= LEAST_SAVING * trie_tokens else alone).append(group)
    rest = np.sort(np.concatenate(alone))
    return [
        *_by_length(rows.lengths, rest, token_budget, pack),
        *(MicroBatch(group, "trie") for group in tries),
    ]


def _by_length(lengths: np.ndarray, rows: np.ndarray, token_budget: int, pack: bool) -> list[MicroBatch]:
    """Micro-batches of `rows` (int64[K]), of those with `lengths` (int64[T])."""
    if pack:
        return [MicroBatch(rows[group], "packed") for group in packed_micro_batches(lengths[rows], token_budget)]
    return [MicroBatch(rows[group], "padded") for group in micro_batches(lengths[rows], token_budget)]


def trie_order(rows: TokenRows) -> np.ndarray:
    """int64[T], the rows in the order of their tokens, so that rows with a common prefix follow one another."""
    ends = np.cumsum(rows.lengths)
    # As big-endian bytes, ids that are not negative compare as numbers do.
    packed = rows.token_ids.astype(">u4")
    keys = [packed[end - length : end].tobytes() for end, length in zip(ends, rows.lengths, strict=True)]
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), np.int64)


def shared_lengths(rows: TokenRows) -> np.ndarray:
    """int64[T], how many first tokens each row has in common with the one before it; 0 for the first."""
    ids_of_rows = np.split(rows.token_ids, np.cumsum(rows.lengths)[:-1])
    shared = np.zeros(len(rows), np.int64)
    for row in range(1, len(rows)):
        shared[row] = _common_prefix(ids_of_rows[row - 1], ids_of_rows[row])
    return shared


class PaddedQueries(NamedTuple):
    """The attention of k rows' own tokens, q at most, to all tokens of their rows, t at most.

    Rows are aligned at their last token. Of a trie with N tokens:

    Attributes:
        queries: int64[k, q], which of the N tokens they are; anything at padding.
        keys: int64[k, t], the same of a row's tokens.
        mask: bool[k, 1, q, t], which keys a query sees: those of its own row up to itself. At padding a query sees just
            itself, as it must see something.
    """

    queries: np.ndarray
    keys: np.ndarray
    mask: np.ndarray


@dataclass(frozen=True)
class TrieRows:
    """K rows, with M response tokens, as a trie of N tokens.

    Attributes:
        input_ids: int64[1, N], each row's own tokens, row by row.
        attention_mask: int64[1, N], all 1.
        position_ids: int64[1, N], a token's place in its row.
        attention: What attends to what, in a few rectangles.
        attended_index: int64[N], where the tokens lie among the queries of all rectangles, these flattened and one
            behind the other.
        response_index: int64[M], of each response token the place, among the N tokens, of the one before it.
        response_ids: int64[M], the response tokens, rows packed back to back.
    """

    input_ids: np.ndarray
    attention_mask: np.ndarray
    position_ids: np.ndarray
    attention: tuple[PaddedQueries, ...]
    attended_index: np.ndarray
    response_index: np.ndarray
    response_ids: np.ndarray


def pack_trie(rows: TokenRows) -> TrieRows:
    """The trie of `rows` (at least one). In any other order than `trie_order` they share less."""
    shared = shared_lengths(rows)
    own = rows.lengths - shared
    first_own = np.cumsum(own) - own
    num_tokens = int(own.sum())
    ids_of_rows = np.split(rows.token_ids, np.cumsum(rows.lengths)[:-1])
    # Of each row, where its tokens are in the trie.
    paths: list[np.ndarray] = []
    for row in range(len(rows)):
        prefix = paths[-1][: shared[row]] if row else np.arange(0)
        paths.append(np.concatenate([prefix, first_own[row] + np.arange(own[row])]))

    attention, attended_index, passed = [], np.empty(num_tokens, np.int64), 0
    for group in _alike(own):
        part = _padded_queries([paths[row] for row in group], own[group])
        attention.append(part)
        is_query = np.arange(part.queries.shape[1]) >= part.queries.shape[1] - own[group][:, None]
        attended_index[part.queries[is_query]] = passed + np.flatnonzero(is_query)
        passed += part.queries.size
    return TrieRows(
        input_ids=np.concatenate([ids[start:] for ids, start in zip(ids_of_rows, shared, strict=True)])[None].astype(
            np.int64
        ),
        attention_mask=np.ones((1, num_tokens), np.int64),
        position_ids=np.concatenate([np.arange(*ends) for ends in zip(shared, rows.lengths, strict=True)])[None],
        attention=tuple(attention),
        attended_index=attended_index,
        response_index=np.concatenate(
            [path[-count - 1 : -1] for path, count in zip(paths, rows.response_lengths, strict=True)]
        ),
        response_ids=np.concatenate(
            [ids[-count:] for ids, count in zip(ids_of_rows, rows.response_lengths, strict=True)]
        ).astype(np.int64),
    )


def _padded_queries(paths: list[np.ndarray], own: np.ndarray) -> PaddedQueries:
    """Of k rows: where their tokens are, int64[t_i] each, and how many are their own, int64[k]."""
    lengths = np.array([len(path) for path in paths])
    num_queries, num_keys = int(own.max()), int(lengths.max())
    keys = np.zeros((len(paths), num_keys), np.int64)
    for of_row, path in zip(keys, paths, strict=True):
        of_row[num_keys - len(path) :] = path
    column = np.arange(num_keys)
    own_column = column[num_keys - num_queries :, None]
    is_token = (column >= (num_keys - lengths)[:, None])[:, None, :]
    mask = (is_token & (column < own_column)) | (column == own_column)
    return PaddedQueries(keys[:, num_keys - num_queries :], keys, mask[:, None])


def _alike(own: np.ndarray) -> list[np.ndarray]:
    """Groups of rows (int64[k_i]) with similar numbers of own tokens (int64[K]); without those that have none."""
    order = np.argsort(own, kind="stable")
    order = order[own[order] > 0]
    groups, start = [], 0
    for end in range(1, len(order) + 1):
        if end == len(order) or own[order[end]] > max(2 * own[order[start]], _FEW_TOKENS):
            groups.append(order[start:end])
            start = end
    return groups


def _runs_within(lengths: np.ndarray, token_budget: int) -> list[tuple[int, int]]:
    """(start, end) of runs of rows (int64[T] tokens each) that stay within the budget when padded to their longest."""
    runs, start, longest = [], 0, 0
    for end, length in enumerate(lengths.tolist()):
        longest = max(longest, length)
        if end > start and longest * (end + 1 - start) > token_budget:
            runs.append((start, end))
            start, longest = end, length
    return [*runs, (start, len(lengths))]


def _common_prefix(first: np.ndarray, second: np.ndarray) -> int:
    length = min(len(first), len(second))
    differs = first[:length] != second[:length]
    return int(differs.argmax()) if differs.any() else length
