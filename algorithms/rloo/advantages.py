"""RLOO's advantage: a trajectory's summed reward against the mean of the others (arXiv 2402.14740)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rllib_gigpo.algorithms.group_policy.advantage_math import (
    Float32s,
    as_float32,
    check_not_negative,
    normalize_within,
    step_table,
    trajectory_scores,
)


class RLOOAdvantages(NamedTuple):
    """Per step row."""

    total: Float32s  # [T], what the loss uses


def rloo_advantages(
    rewards: ArrayLike,
    trajectory_ids: ArrayLike,
    group_ids: ArrayLike,
    *,
    invalid: ArrayLike | None = None,
    invalid_action_penalty: float = 0.1,
) -> RLOOAdvantages:
    """A(τ_i) = R(τ_i) − mean_{j≠i} R(τ_j) over the trajectories of a rollout group; the same for all rows of τ_i.

    Args:
        rewards: float[T], without the invalid-action penalty, which is part of the reward of the invalid step here.
        trajectory_ids: int or str[T], unique over all groups; a trajectory's rows are contiguous and in time order.
        group_ids: int or str[T], the rollout group of each row.
        invalid: bool[T], True where the action was invalid; None for none.
        invalid_action_penalty: Reward units, at least 0.

    Returns:
        Exactly 0 where all scores of a group are equal, up to 1e-6 of the largest, and for a lone trajectory.

    Raises:
        ValueError: A column or option is wrong; the message names it, and the row.
    """
    check_not_negative(invalid_action_penalty=invalid_action_penalty)
    table = step_table(rewards, trajectory_ids, group_ids, invalid)
    scores = trajectory_scores(table, invalid_action_penalty=invalid_action_penalty)
    members = np.bincount(table.trajectory_group)[table.trajectory_group]
    # Leaving oneself out of the mean is N / (N − 1) times the distance from the mean of all.
    centred = normalize_within(scores, table.trajectory_group, norm="mean")
    advantages = centred * members / np.maximum(members - 1, 1)
    return RLOOAdvantages(total=as_float32(advantages[table.trajectory]))
