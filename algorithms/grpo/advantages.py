"""GRPO's advantage: a trajectory's summed reward relative to its rollout group (arXiv 2402.03300)."""

from __future__ import annotations

from typing import NamedTuple

from numpy.typing import ArrayLike

from rllib_gigpo.algorithms.group_policy.advantage_math import (
    Float32s,
    Norm,
    Reference,
    as_float32,
    check_options,
    episode_advantages,
    step_table,
)


class GRPOAdvantages(NamedTuple):
    """Per step row; both are the same numbers, named as GiGPO's are."""

    total: Float32s  # [T], what the loss uses
    episode: Float32s  # [T]


def grpo_advantages(
    rewards: ArrayLike,
    trajectory_ids: ArrayLike,
    group_ids: ArrayLike,
    *,
    norm: Norm = "std",
    reference: Reference = "paper",
    invalid: ArrayLike | None = None,
    invalid_action_penalty: float = 0.1,
    std_floor: float = 0.0,
) -> GRPOAdvantages:
    """A(τ_i) = (R(τ_i) − mean_j R(τ_j)) / F over the trajectories of a rollout group.

    Args:
        rewards: float[T], without the invalid-action penalty.
        trajectory_ids: int or str[T], unique over all groups; a trajectory's rows are contiguous and in time order.
        group_ids: int or str[T], the rollout group of each row.
        norm: "std": F = max(std, std_floor) + 1e-6, std with Bessel's correction. "mean": F = 1.
        reference: "paper": statistics over trajectories, penalty inside the reward. "verl-agent": the published code's
            statistics over rows, penalty on the invalid row's score alone; a group of one row keeps its raw score.
        invalid: bool[T], True where the action was invalid; None for none.
        invalid_action_penalty: Reward units, at least 0.
        std_floor: Reward units, at least 0.

    Returns:
        Exactly 0 where all scores of a group are equal, up to 1e-6 of the largest.

    Raises:
        ValueError: A column or option is wrong; the message names it, and the row.
    """
    check_options(norm=norm, reference=reference, invalid_action_penalty=invalid_action_penalty, std_floor=std_floor)
    table = step_table(rewards, trajectory_ids, group_ids, invalid)
    episode = as_float32(
        episode_advantages(
            table,
            norm=norm,
            reference=reference,
            invalid_action_penalty=invalid_action_penalty,
            std_floor=std_floor,
        )
    )
    return GRPOAdvantages(total=episode, episode=episode)
