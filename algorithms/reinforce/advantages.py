"""REINFORCE++'s advantage: returns, normalized over all steps of an iteration (arXiv 2501.03262)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rllib_gigpo.algorithms.group_policy.advantage_math import (
    Float32s,
    as_float32,
    check_not_negative,
    normalize_within,
    step_returns,
    step_table,
    trajectory_scores,
)


class REINFORCEPlusPlusAdvantages(NamedTuple):
    """Per step row; every token of the row's response shares `total`."""

    total: Float32s  # [T], what the loss uses
    score: Float32s  # [T], before it is normalized


def reinforce_plus_plus_advantages(
    rewards: ArrayLike,
    trajectory_ids: ArrayLike,
    group_ids: ArrayLike,
    *,
    gamma: float = 1.0,
    group_baseline: bool = False,
    invalid: ArrayLike | None = None,
    invalid_action_penalty: float = 0.1,
    std_floor: float = 0.0,
) -> REINFORCEPlusPlusAdvantages:
    """A_t = (S_t − mean) / (std + 1e-6) over the rows of all groups, std with Bessel's correction.

    S_t is the discounted return Σ_{k>=t} γ^(k−t) r_k; with `group_baseline` the trajectory's summed reward less the
    mean over its rollout group ("REINFORCE++ w/ baseline").

    Args:
        rewards: float[T], without the invalid-action penalty, which is part of the reward of the invalid step here.
        trajectory_ids: int or str[T], unique over all groups; a trajectory's rows are contiguous and in time order.
        group_ids: int or str[T], the rollout group of each row; without `group_baseline` it changes nothing.
        gamma: γ, in [0, 1]; `group_baseline` does not discount.
        group_baseline: Whether groups are centred before the batch is normalized.
        invalid: bool[T], True where the action was invalid; None for none.
        invalid_action_penalty: Reward units, at least 0.
        std_floor: Reward units, at least 0; the smallest std to divide by.

    Returns:
        Exactly 0 where all scores of the batch are equal, up to 1e-6 of the largest.

    Raises:
        ValueError: A column or option is wrong; the message names it, and the row.
    """
    check_not_negative(invalid_action_penalty=invalid_action_penalty, std_floor=std_floor)
    table = step_table(rewards, trajectory_ids, group_ids, invalid)
    score = step_returns(table, gamma=gamma, invalid_action_penalty=invalid_action_penalty, reference="paper")
    if group_baseline:
        totals = trajectory_scores(table, invalid_action_penalty=invalid_action_penalty)
        score = normalize_within(totals, table.trajectory_group, norm="mean")[table.trajectory]
    total = normalize_within(score, np.zeros_like(table.group), norm="std", std_floor=std_floor)
    return REINFORCEPlusPlusAdvantages(total=as_float32(total), score=as_float32(score))
