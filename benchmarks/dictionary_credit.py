"""Credit assignment as most code writes it: dictionaries from ids to rows, and numpy over the rows of each.

T is the number of step rows. Every function takes time proportional to T: unlike loops that look for the rows of an id
among all rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable
from typing import Any, NamedTuple

import numpy as np
from plain_credit import GAMMA, LAMBDA, PENALTY


def anchor_ids(observations: Iterable[Any], group_ids: np.ndarray) -> np.ndarray:
    """int64[T]: a number for each pair of a group and an observation, by first appearance."""
    ids: dict[Hashable, int] = {}
    pairs = zip(group_ids.tolist(), observations, strict=True)
    return np.array([ids.setdefault(pair, len(ids)) for pair in pairs], np.int64)


def rows_of(ids: Iterable[Hashable]) -> list[np.ndarray]:
    """The rows of each id, in order."""
    rows: dict[Hashable, list[int]] = defaultdict(list)
    for row, key in enumerate(ids):
        rows[key].append(row)
    return [np.array(members) for members in rows.values()]


def discounted(values: np.ndarray, trajectories: list[np.ndarray], factor: float) -> np.ndarray:
    """float64[T]: of `values`, what follows within a trajectory, discounted."""
    sums = np.empty(len(values))
    for rows in trajectories:
        following, backwards = 0.0, []
        for value in values[rows][::-1].tolist():
            following = value + factor * following
            backwards.append(following)
        sums[rows] = backwards[::-1]
    return sums


def normalized(values: np.ndarray, keys: Iterable[Hashable]) -> np.ndarray:
    """float64[T]: less the mean of its key, divided by the standard deviation; 0 where a key's values are equal."""
    out = np.zeros(len(values))
    for rows in rows_of(keys):
        of_key = values[rows]
        if np.ptp(of_key) > 1e-6 * np.abs(of_key).max():
            out[rows] = (of_key - of_key.mean()) / (of_key.std(ddof=1) + 1e-6)
    return out


class Columns(NamedTuple):
    """T rows: rewards float32[T], trajectory_ids, group_ids and anchor_ids int64[T], invalid bool[T]."""

    rewards: np.ndarray
    trajectory_ids: np.ndarray
    group_ids: np.ndarray
    anchor_ids: np.ndarray
    invalid: np.ndarray

    @property
    def penalised(self) -> np.ndarray:
        """float64[T]: rewards, less the penalty of invalid actions."""
        return self.rewards.astype(np.float64) - PENALTY * self.invalid

    @property
    def states(self) -> Iterable[tuple[int, int]]:
        """Group and anchor state of each row."""
        return zip(self.group_ids.tolist(), self.anchor_ids.tolist(), strict=True)


def gigpo(**columns: np.ndarray) -> np.ndarray:
    """GiGPO's advantages, float64[T], from the fields of `Columns`."""
    rows = Columns(**columns)
    penalised, trajectories = rows.penalised, rows_of(rows.trajectory_ids.tolist())
    first = np.array([of_trajectory[0] for of_trajectory in trajectories])
    totals = np.array([penalised[of_trajectory].sum() for of_trajectory in trajectories])
    episodes = normalized(totals, rows.group_ids[first].tolist())
    total = normalized(discounted(penalised, trajectories, GAMMA), rows.states)
    for of_trajectory, episode in zip(trajectories, episodes, strict=True):
        total[of_trajectory] += episode
    return total


def gagpo(**columns: np.ndarray) -> np.ndarray:
    """GAGPO's advantages, float64[T], from the fields of `Columns`."""
    rows = Columns(**columns)
    penalised, trajectories = rows.penalised, rows_of(rows.trajectory_ids.tolist())
    returns = discounted(penalised, trajectories, GAMMA)
    value = np.empty(len(returns))
    for of_state in rows_of(rows.states):
        value[of_state] = returns[of_state].mean()
    follows = np.append(rows.trajectory_ids[1:] == rows.trajectory_ids[:-1], False)
    errors = penalised + GAMMA * follows * np.append(value[1:], 0.0) - value
    errors[np.abs(errors) <= 1e-9] = 0.0
    return normalized(discounted(errors, trajectories, GAMMA * LAMBDA), rows.group_ids.tolist())
