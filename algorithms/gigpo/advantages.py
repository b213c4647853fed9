"""GiGPO's advantages: trajectory level plus step level within anchor states (arXiv 2505.10978)."""

from __future__ import annotations

from typing import NamedTuple

from numpy.typing import ArrayLike

from rllib_gigpo.algorithms.group_policy.advantage_math import (
    Float32s,
    Norm,
    Reference,
    as_float32,
    check_finite,
    check_options,
    column,
    dense_index,
    episode_advantages,
    normalize_within,
    pair_index,
    step_returns,
    step_table,
)


class GiGPOAdvantages(NamedTuple):
    """Per step row; every token of the row's response shares `total`."""

    total: Float32s  # [T], episode + step_advantage_weight * step
    episode: Float32s  # [T], A^E
    step: Float32s  # [T], A^S
    returns: Float32s  # [T], discounted returns, with the penalty


def gigpo_advantages(
    rewards: ArrayLike,
    trajectory_ids: ArrayLike,
    group_ids: ArrayLike,
    anchor_ids: ArrayLike,
    *,
    gamma: float = 0.95,
    step_advantage_weight: float = 1.0,
    norm: Norm = "std",
    reference: Reference = "paper",
    invalid: ArrayLike | None = None,
    invalid_action_penalty: float = 0.1,
    std_floor: float = 0.0,
) -> GiGPOAdvantages:
    """A = A^E + ω·A^S: A^E relative to the rollout group, A^S to those of its steps that share an anchor state.

    R_t = Σ_{k>=t} γ^(k−t) r_k;  A^S = (R_t − mean) / F over the step group, which may hold a trajectory several times.

    Args:
        rewards: float[T], without the invalid-action penalty.
        trajectory_ids: int or str[T], unique over all groups; a trajectory's rows are contiguous and in time order.
        group_ids: int or str[T], the rollout group of each row.
        anchor_ids: int or str[T], compared within a rollout group only.
        gamma: γ, in [0, 1].
        step_advantage_weight: ω. With 0, `total` is GRPO's.
        norm: "std": F = max(std, std_floor) + 1e-6, std with Bessel's correction. "mean": F = 1.
        reference: "paper": A^E over trajectories, penalty inside the reward of the invalid step. "verl-agent": the
            published code's A^E over rows, penalty after discounting on the invalid row alone; a group of one row keeps
            its raw score as A^E.
        invalid: bool[T], True where the action was invalid; None for none.
        invalid_action_penalty: Reward units, at least 0.
        std_floor: Reward units, at least 0; the same for both levels.

    Returns:
        Exactly 0 on a level where all values of the (step) group are equal, up to 1e-6 of the largest, and A^S exactly
        0 for a lone member.

    Raises:
        ValueError: A column or option is wrong; the message names it, and the row.
    """
    check_options(norm=norm, reference=reference, invalid_action_penalty=invalid_action_penalty, std_floor=std_floor)
    check_finite(step_advantage_weight=step_advantage_weight)
    table = step_table(rewards, trajectory_ids, group_ids, invalid)
    anchor = dense_index(column("anchor_ids", anchor_ids, kinds="iuU", rows=len(table.rewards)))

    returns = step_returns(table, gamma=gamma, invalid_action_penalty=invalid_action_penalty, reference=reference)
    step = normalize_within(returns, pair_index(table.group, anchor), norm=norm, std_floor=std_floor)
    episode = episode_advantages(
        table, norm=norm, reference=reference, invalid_action_penalty=invalid_action_penalty, std_floor=std_floor
    )
    return GiGPOAdvantages(
        total=as_float32(episode + step_advantage_weight * step),
        episode=as_float32(episode),
        step=as_float32(step),
        returns=as_float32(returns),
    )
