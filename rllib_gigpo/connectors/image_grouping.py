"""Lets pictures that differ by rendering noise alone count as one anchor state.

A picture is reduced to the mean of each block of 8 × 8 pixels, for each channel. Two pictures of one shape are alike
where none of these means differs by more than a tolerance, in the levels 0 … 255 of a pixel. Within a rollout group,
the distinct pictures are taken by falling number of rows, then by content. Each joins the nearest leader that is alike,
or becomes a leader itself: the groups do not depend on the order of the rows, and two that share a leader may differ by
up to twice the tolerance.

What that can and cannot do:

* Noise that is independent from pixel to pixel averages out: the means of two copies with ±4 levels of it differ by 3
  at most, of two with ±8 by 5. JPEG compression moves means by up to 20 levels where colours meet.
* A detail of n pixels in one block, c levels off its ground, moves a mean by n·c/64; one that stays within the
  tolerance is not seen. With a tolerance of 5 the card games in their published size and Sokoban still look different
  in every state; cards of 56 × 56 do not.
* A picture that is shifted, even by one pixel, is another picture: at an edge a mean moves by up to 32 levels.

Where an environment knows its state, `info["anchor_state"]` needs none of this, and leaves the pixels where they are:
a comparison fetches those of the object store.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from rllib_gigpo.connectors.state_keys import state_key

BLOCK = 8


def check_image_tolerance(tolerance: Any) -> None:
    """Raises ValueError where `tolerance` is neither None nor a number from 0 to 255."""
    if tolerance is None:
        return
    is_number = isinstance(tolerance, int | float) and not isinstance(tolerance, bool) and math.isfinite(tolerance)
    if not is_number or not 0 <= tolerance <= 255:
        raise ValueError(f"image_tolerance is {tolerance!r}; it must be a number of levels from 0 to 255, or None")


def merge_noisy_pictures(
    ids: np.ndarray, states: Sequence[Any], groups: Sequence[Hashable], *, tolerance: float
) -> np.ndarray:
    """One id for all states of a rollout group whose pictures are alike and that are equal but for these.

    Args:
        ids: int64[T], equal exactly where group and state are, numbered 0..K-1 by first appearance.
        states: T states, as in `anchor_state_ids`.
        groups: T rollout groups.
        tolerance: Levels by which the means of a block may differ.

    Returns:
        int64[T], numbered by first appearance.
    """
    _, first_rows, rows_of_id = np.unique(ids, return_index=True, return_counts=True)
    candidates: defaultdict[Hashable, list[int]] = defaultdict(list)  # ids that only pictures may tell apart
    means_of_id: dict[int, np.ndarray] = {}
    for state, row in enumerate(first_rows.tolist()):
        pictures: list[np.ndarray] = []
        rest = state_key(states[row], row, pictures)
        if pictures:
            candidates[groups[row], rest].append(state)
            means_of_id[state] = np.concatenate([block_means(picture).ravel() for picture in pictures])

    merged = np.arange(len(first_rows))
    for alternatives in candidates.values():
        means = np.stack([means_of_id[state] for state in alternatives])
        leaders = _leaders(means, rows_of_id[alternatives].tolist(), tolerance)
        # The earliest member's id stands for all, so that the order of first appearances is kept.
        earliest: dict[int, int] = {}
        for state, leader in zip(alternatives, leaders, strict=True):
            merged[state] = earliest.setdefault(leader, state)
    return np.unique(merged[ids], return_inverse=True)[1].astype(np.int64, copy=False)


def block_means(picture: np.ndarray) -> np.ndarray:
    """Means of blocks of 8 × 8 pixels, smaller ones at the right and lower edge: uint8[H, W, C] to
    float32[⌈H/8⌉, ⌈W/8⌉, C]."""
    rows, columns = (np.arange(0, length, BLOCK) for length in picture.shape[:2])
    sums = np.add.reduceat(np.add.reduceat(picture, rows, axis=0, dtype=np.float32), columns, axis=1)
    heights = np.minimum(BLOCK, picture.shape[0] - rows)
    widths = np.minimum(BLOCK, picture.shape[1] - columns)
    means: np.ndarray = sums / (heights[:, None, None] * widths[None, :, None]).astype(np.float32)
    return means


def _leaders(means: np.ndarray, counts: Sequence[int], tolerance: float) -> list[int]:
    """The index of each picture's leader: K, from float32[K, D] and the number of rows that show each."""
    leader_of = list(range(len(means)))
    leaders: list[int] = []
    for index in sorted(range(len(means)), key=lambda i: (-counts[i], means[i].tobytes())):
        apart = np.abs(means[leaders] - means[index]).max(axis=1) if leaders else np.zeros(0)
        if len(apart) and apart.min() <= tolerance:
            leader_of[index] = leaders[int(apart.argmin())]
        else:
            leaders.append(index)
    return leader_of
