"""The value of the state after each step, which one-step errors bootstrap from."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rllib_gigpo.algorithms.group_policy.advantage_math import Float64s, Int64s, column


def next_values(value: Float64s, lengths: Int64s, terminated: ArrayLike | None) -> Float64s:
    """V of the state after each row: that of the next row, float64[T].

    Args:
        value: float64[T], V of each row's own state, trajectory after trajectory.
        lengths: int64[N], rows per trajectory, with sum T.
        terminated: bool[T], True on the last row of a trajectory that ended by itself, after which V = 0. The others
            were cut off, and the state after the cut, in which nobody acted, takes the value of the last state in
            which somebody did. None: all terminated.

    Raises:
        ValueError: `terminated` has another length or type, or is True within a trajectory.
    """
    last = np.cumsum(lengths) - 1
    following = np.append(value[1:], 0.0)[: len(value)]
    following[last] = np.where(_cut_off(terminated, last, len(value)), value[last], 0.0)
    return following


def _cut_off(terminated: ArrayLike | None, last: Int64s, rows: int) -> NDArray[np.bool_]:
    """bool[N]: whether each trajectory, whose last row is `last` (int64[N]), did not end by itself."""
    if terminated is None:
        return np.zeros(len(last), bool)
    flags = column("terminated", terminated, kinds="b", rows=rows)
    goes_on = np.ones(rows, bool)
    goes_on[last] = False
    if len(wrong := np.flatnonzero((flags == 1) & goes_on)):
        raise ValueError(f"terminated[{wrong[0]}] is True, but the trajectory goes on after that row")
    return flags[last] == 0
