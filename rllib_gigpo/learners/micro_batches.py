"""How rows are split: into mini-batches (one optimizer step each), these into micro-batches (one forward pass each)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rllib_gigpo.rows import TokenRows


def mini_batches(num_rows: int, count: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Splits `num_rows` shuffled rows into exactly `count` index arrays (int64[K_i]), each row in one of them.

    A count, not a size, since learners with shards of different size must take the same number of optimizer steps.
    Sizes differ by at most one; with fewer rows than `count` some are empty. With a count of 1 rows keep their order.
    """
    if count < 1:
        raise ValueError(f"the number of mini-batches is {count}; it must be at least 1")
    order = np.arange(num_rows) if count == 1 else rng.permutation(num_rows)
    return np.array_split(order, count)


def micro_batches(lengths: np.ndarray, token_budget: int) -> list[np.ndarray]:
    """Groups rows of similar length so that each group, padded to its longest row, holds at most `token_budget` tokens.

    Args:
        lengths: int64[T], tokens per row.
        token_budget: Padded tokens per micro-batch. A row longer than that goes alone.

    Returns:
        Index arrays (int64[K_i], K_i >= 1), each row in one of them, short rows first; empty for no rows.
    """
    if token_budget < 1:
        raise ValueError(f"the token budget of a micro-batch is {token_budget}; it must be at least 1")
    order = np.argsort(lengths, kind="stable")
    groups: list[np.ndarray] = []
    start = 0
    for end in range(1, len(order) + 1):
        # Sorted upwards: the row at `end` would be the longest of its group.
        if end == len(order) or lengths[order[end]] * (end + 1 - start) > token_budget:
            groups.append(order[start:end])
            start = end
    return groups


@dataclass(frozen=True)
class PaddedRows:
    """K rows as a rectangle, aligned at their last token: all padding is on the left.

    So the rectangle is only as wide as its longest row, and the responses lie in the last R columns, R being the
    longest response. With L the longest row and M the response tokens of all rows:

    Attributes:
        input_ids: int64[K, L].
        attention_mask: int64[K, L], 0 at padding.
        position_ids: int64[K, L], from 0 at a row's first token; 0 at padding.
        response_columns: R.
        response_index: int64[M], where the response tokens lie in the last R columns, [K, R] flattened row by row.
        response_ids: int64[M], the response tokens, rows packed back to back.
    """

    input_ids: np.ndarray
    attention_mask: np.ndarray
    position_ids: np.ndarray
    response_columns: int
    response_index: np.ndarray
    response_ids: np.ndarray


def pad_rows(rows: TokenRows, pad_id: int) -> PaddedRows:
    """Pads `rows` (at least one) on the left with `pad_id`."""
    count, width, columns = len(rows), int(rows.lengths.max()), int(rows.response_lengths.max())
    position_ids = np.arange(width) - (width - rows.lengths)[:, None]
    is_token = position_ids >= 0
    input_ids = np.full((count, width), pad_id, np.int64)
    # A boolean mask is filled row by row, which is the order in which the ids are packed.
    input_ids[is_token] = rows.token_ids
    is_response = np.arange(columns) >= (columns - rows.response_lengths)[:, None]
    return PaddedRows(
        input_ids=input_ids,
        attention_mask=is_token.astype(np.int64),
        position_ids=np.maximum(position_ids, 0),
        response_columns=columns,
        response_index=np.flatnonzero(is_response),
        response_ids=input_ids[:, width - columns :][is_response],
    )
