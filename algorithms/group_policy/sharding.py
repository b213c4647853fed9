"""Splits token rows over learners, by tokens."""

from __future__ import annotations

import heapq

import numpy as np

from rllib_gigpo.rows import TokenRows


def shard_rows(rows: TokenRows, num_shards: int) -> list[TokenRows]:
    """The rows of each of `shard_indices`."""
    return [rows.take(indices) for indices in shard_indices(rows, num_shards)]


def shard_indices(rows: TokenRows, num_shards: int) -> list[np.ndarray]:
    """`num_shards` shards of about equal token counts (longest row first, to the emptiest shard); one may be empty.

    Every row lands in exactly one shard, rows of a shard keep their order. Learners need no equal row counts: each
    takes the same number of optimizer steps, and the loss is normalised over all of them.

    Returns:
        The rows of each shard, int64[K_i].
    """
    shard_of = np.zeros(len(rows), np.int64)
    heap = [(0, shard) for shard in range(num_shards)]
    for row in np.argsort(-rows.lengths, kind="stable"):
        tokens, shard = heapq.heappop(heap)
        shard_of[row] = shard
        heapq.heappush(heap, (tokens + int(rows.lengths[row]), shard))
    return [np.flatnonzero(shard_of == shard) for shard in range(num_shards)]
