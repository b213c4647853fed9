"""Rows one behind the other in one sequence, without padding; each attends to itself alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rllib_gigpo.rows import TokenRows


@dataclass(frozen=True)
class PackedRows:
    """K rows, with M response tokens, as one sequence of N tokens: all of theirs.

    Attributes:
        input_ids: int64[1, N], row by row.
        attention_mask: int64[1, N], all 1.
        position_ids: int64[1, N], a token's place in its row.
        runs: (count, tokens of each) of rows of equal length that follow one another.
        response_index: int64[M], of each response token the place, among the N tokens, of the one before it.
        response_ids: int64[M], the response tokens, rows packed back to back.
    """

    input_ids: np.ndarray
    attention_mask: np.ndarray
    position_ids: np.ndarray
    runs: tuple[tuple[int, int], ...]
    response_index: np.ndarray
    response_ids: np.ndarray


def pack_rows(rows: TokenRows) -> PackedRows:
    """Packs `rows` (at least one). Rows of equal length are best side by side: they attend in one call."""
    ids = rows.token_ids.astype(np.int64)
    ends = np.cumsum(rows.lengths)
    first_of_row = np.repeat(ends - rows.lengths, rows.lengths)
    place = np.arange(len(ids))
    is_response = place >= np.repeat(ends - rows.response_lengths, rows.lengths)
    response = np.flatnonzero(is_response)
    starts_run = np.flatnonzero(np.diff(rows.lengths, prepend=-1))
    counts = np.diff(starts_run, append=len(rows))
    return PackedRows(
        input_ids=ids[None],
        attention_mask=np.ones((1, len(ids)), np.int64),
        position_ids=(place - first_of_row)[None],
        runs=tuple(zip(counts.tolist(), rows.lengths[starts_run].tolist(), strict=True)),
        response_index=response - 1,
        response_ids=ids[response],
    )


def packed_micro_batches(lengths: np.ndarray, token_budget: int) -> list[np.ndarray]:
    """Groups rows of similar length, each group with at most `token_budget` tokens.

    Args:
        lengths: int64[T], tokens per row.
        token_budget: Tokens per micro-batch, at least 1. A row longer than that goes alone.

    Returns:
        Index arrays (int64[K_i], K_i >= 1), each row in one of them, short rows first; empty for no rows.
    """
    order = np.argsort(lengths, kind="stable")
    groups: list[np.ndarray] = []
    start, tokens = 0, 0
    for end, length in enumerate(lengths[order].tolist()):
        if end > start and tokens + length > token_budget:
            groups.append(order[start:end])
            start, tokens = end, 0
        tokens += length
    return [*groups, order[start:]] if len(order) else []
