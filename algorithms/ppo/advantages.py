"""PPO's advantages: generalized advantage estimation over a critic's values (arXiv 1506.02438)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rllib_gigpo.algorithms.group_policy.advantage_math import (
    Float32s,
    Float64s,
    as_float32,
    check_not_negative,
    check_unit_interval,
    discounted_sums,
    finite_column,
    normalize_within,
    step_table,
)
from rllib_gigpo.algorithms.group_policy.next_values import next_values
from rllib_gigpo.rows import StepRows


class GAEAdvantages(NamedTuple):
    """Per row."""

    total: Float32s  # [T], what the loss uses
    returns: Float32s  # [T], what the critic learns: Â + V, of Â before it is normalized


def gae_advantages(
    rewards: ArrayLike,
    values: ArrayLike,
    trajectory_ids: ArrayLike,
    *,
    gamma: float = 1.0,
    lambda_: float = 1.0,
    terminated: ArrayLike | None = None,
    normalize: bool = True,
    invalid: ArrayLike | None = None,
    invalid_action_penalty: float = 0.1,
    std_floor: float = 0.0,
) -> GAEAdvantages:
    """δ_t = r_t + γV_{t+1} − V_t;  Â_t = δ_t + γλÂ_{t+1}, within each trajectory.

    The advantage is Â, normalized over all rows: (Â − mean) / (std + 1e-6), std with Bessel's correction. A row is a
    step, or a token of one (see `token_columns`).

    Args:
        rewards: float[T], without the invalid-action penalty, which is part of the reward of the invalid row here.
        values: float[T], V, of the state before each row.
        trajectory_ids: int or str[T]; a trajectory's rows are contiguous and in time order.
        gamma: γ, in [0, 1].
        lambda_: λ, in [0, 1]. With 0, Â = δ; with 1, Â = R_t − V_t, R_t the discounted return.
        terminated: bool[T], True on the last row of a trajectory that ended by itself. The others were cut off, and
            the state after the cut, in which nobody acted, takes the value of the last state in which somebody did.
            None: all terminated, V = 0 after the last row.
        normalize: False: Â as it is.
        invalid: bool[T], True where the action was invalid; None for none.
        invalid_action_penalty: Reward units, at least 0.
        std_floor: Reward units, at least 0; the smallest std to divide by.

    Returns:
        A normalized advantage of exactly 0 where all Â are equal, up to 1e-6 of the largest.

    Raises:
        ValueError: A column or option is wrong; the message names it, and the row.
    """
    check_unit_interval(gamma=gamma, lambda_=lambda_)
    check_not_negative(invalid_action_penalty=invalid_action_penalty, std_floor=std_floor)
    table = step_table(rewards, trajectory_ids, trajectory_ids, invalid)
    value = finite_column("values", values, kinds="fiu", rows=len(table.rewards))

    reward = table.rewards - invalid_action_penalty * table.invalid
    error = reward + gamma * next_values(value, table.lengths, terminated) - value
    advantage = discounted_sums(error, table.lengths, gamma * lambda_)
    total = advantage
    if normalize:
        total = normalize_within(advantage, np.zeros_like(table.trajectory), norm="std", std_floor=std_floor)
    return GAEAdvantages(total=as_float32(total), returns=as_float32(advantage + value))


class TokenColumns(NamedTuple):
    """The columns of T steps with M response tokens, per token. Made by `token_columns`."""

    rewards: Float64s  # [M]
    trajectory_ids: NDArray[np.int64]  # [M]
    terminated: NDArray[np.bool_]  # [M]
    invalid: NDArray[np.bool_]  # [M]


def token_columns(rows: StepRows) -> TokenColumns:
    """Steps as the tokens of their responses: reward, end and penalty of a step belong to the last of its tokens."""
    lengths = rows.response_lengths
    last = np.cumsum(lengths) - 1
    tokens = int(lengths.sum())

    def at_last(of_step: NDArray, like: NDArray) -> NDArray:
        like[last] = of_step
        return like

    return TokenColumns(
        rewards=at_last(rows.rewards, np.zeros(tokens)),
        trajectory_ids=np.repeat(rows.trajectory_ids, lengths),
        terminated=at_last(rows.terminated, np.zeros(tokens, bool)),
        invalid=at_last(rows.invalid, np.zeros(tokens, bool)),
    )


def explained_variance(values: ArrayLike, targets: ArrayLike) -> float:
    """1 − Var(R − V) / Var(R) of targets R and values V (float[T] each): 1 is perfect, 0 no better than a constant.

    0 where all targets are equal.
    """
    value, target = np.asarray(values, np.float64), np.asarray(targets, np.float64)
    spread = target.var()
    return float(1 - (target - value).var() / spread) if spread > 0 else 0.0
