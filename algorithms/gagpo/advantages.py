"""GAGPO's advantages: λ-returns over a value proxy of the rollout group's own states (arXiv 2605.13217)."""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike

from rllib_gigpo.algorithms.group_policy.advantage_math import (
    Float32s,
    Float64s,
    StepTable,
    as_float32,
    check_finite,
    check_not_negative,
    check_unit_interval,
    column,
    dense_index,
    discounted_sums,
    episode_advantages,
    normalize_within,
    pair_index,
    statistics_within,
    step_returns,
    step_table,
)
from rllib_gigpo.algorithms.group_policy.next_values import next_values

NormalizeOver = Literal["group", "batch"]

ERROR_TOLERANCE = 1e-9  # of a group's largest reward or return: a smaller δ is rounding


class GAGPOAdvantages(NamedTuple):
    """Per step row; every token of the row's response shares `total`."""

    total: Float32s  # [T], what the loss uses
    value: Float32s  # [T], V̄ of the row's anchor state
    returns: Float32s  # [T], discounted returns, with the penalty


def gagpo_advantages(
    rewards: ArrayLike,
    trajectory_ids: ArrayLike,
    group_ids: ArrayLike,
    anchor_ids: ArrayLike,
    *,
    gamma: float = 0.95,
    lambda_: float = 0.95,
    terminated: ArrayLike | None = None,
    normalize: bool = True,
    invalid: ArrayLike | None = None,
    invalid_action_penalty: float = 0.1,
    normalize_over: NormalizeOver = "group",
    std_floor: float = 0.0,
    trajectory_advantage_weight: float = 0.0,
) -> GAGPOAdvantages:
    """V̄(s) = mean return of the group's steps in s;  δ_t = r_t + γV̄(s_{t+1}) − V̄(s_t);  Â_t = δ_t + γλÂ_{t+1}.

    The advantage is Â, normalized over the steps of the rollout group: (Â − mean) / (std + 1e-6).

    Args:
        rewards: float[T], without the invalid-action penalty, which is part of the reward of the invalid step here.
        trajectory_ids: int or str[T], unique over all groups; a trajectory's rows are contiguous and in time order.
        group_ids: int or str[T], the rollout group of each row.
        anchor_ids: int or str[T], compared within a rollout group only.
        gamma: γ, in [0, 1].
        lambda_: λ, in [0, 1]. With 0, Â = δ; with 1 the Monte-Carlo advantage: Â = R_t − V̄(s_t).
        terminated: bool[T], True on the last row of a trajectory that ended by itself. The others were cut off, and
            the state after the cut, in which nobody acted, takes the value of the last state in which somebody did.
            None: all terminated, V̄ = 0 after the last row.
        normalize: False: Â as it is.
        invalid: bool[T], True where the action was invalid; None for none.
        invalid_action_penalty: Reward units, at least 0.
        normalize_over: The rows that share mean and std: those of a rollout "group", or of the whole "batch".
        std_floor: Reward units, at least 0; the smallest std to divide by.
        trajectory_advantage_weight: Weight of an added trajectory advantage, GRPO's, with std where `normalize`.

    Returns:
        Exactly 0 where every state of a group is unique, for every λ: R_t − V̄ and every δ are then 0 up to rounding,
        which a std of nearly 0 would blow up.

    Raises:
        ValueError: A column or option is wrong; the message names it, and the row.
    """
    check_unit_interval(gamma=gamma, lambda_=lambda_)
    check_not_negative(invalid_action_penalty=invalid_action_penalty, std_floor=std_floor)
    if normalize_over not in get_args(NormalizeOver):
        raise ValueError(f"normalize_over is {normalize_over!r}; it must be one of {get_args(NormalizeOver)}")
    check_finite(trajectory_advantage_weight=trajectory_advantage_weight)
    table = step_table(rewards, trajectory_ids, group_ids, invalid)
    anchor = dense_index(column("anchor_ids", anchor_ids, kinds="iuU", rows=len(table.rewards)))

    returns = step_returns(table, gamma=gamma, invalid_action_penalty=invalid_action_penalty, reference="paper")
    state = pair_index(table.group, anchor)
    value = statistics_within(returns, state).mean[state]

    reward = table.rewards - invalid_action_penalty * table.invalid
    error = reward + gamma * next_values(value, table.lengths, terminated) - value
    error[np.abs(error) <= ERROR_TOLERANCE * _group_scale(reward, returns, table)] = 0
    total = discounted_sums(error, table.lengths, gamma * lambda_)
    if normalize:
        peers = table.group if normalize_over == "group" else np.zeros_like(table.group)
        total = normalize_within(total, peers, norm="std", std_floor=std_floor)
    if trajectory_advantage_weight:
        total = total + trajectory_advantage_weight * episode_advantages(
            table,
            norm="std" if normalize else "mean",
            reference="paper",
            invalid_action_penalty=invalid_action_penalty,
            std_floor=std_floor,
        )
    return GAGPOAdvantages(total=as_float32(total), value=as_float32(value), returns=as_float32(returns))


def _group_scale(reward: Float64s, returns: Float64s, table: StepTable) -> Float64s:
    """float64[T]: the largest absolute reward or return of each row's rollout group."""
    largest = np.zeros(table.group.max(initial=-1) + 1)
    np.maximum.at(largest, table.group, np.maximum(np.abs(reward), np.abs(returns)))
    return largest[table.group]
