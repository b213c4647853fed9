"""RLOO: one advantage per trajectory, against the mean of the other trajectories of its rollout group."""

from __future__ import annotations

import numpy as np
from ray.rllib.utils.annotations import override

from rllib_gigpo.algorithms.group_policy.fixed_keys import check_fixed_keys
from rllib_gigpo.algorithms.group_policy.group_policy import GroupPolicy
from rllib_gigpo.algorithms.group_policy.group_policy_config import GroupPolicyConfig
from rllib_gigpo.algorithms.rloo.advantages import rloo_advantages
from rllib_gigpo.rows import StepRows


class RLOOConfig(GroupPolicyConfig):
    """Configures RLOO (Ahmadian et al. 2024, arXiv 2402.14740) for multi-turn agents.

    Example:
        >>> from rllib_gigpo.algorithms.rloo import RLOOConfig
        >>> config = RLOOConfig().environment("EZPoints").training(group_size=8, groups_per_iteration=16, lr=1e-6)
    """

    def __init__(self, algo_class: type | None = None):
        super().__init__(algo_class=algo_class or RLOO)
        self.advantage_norm = "mean"

    @override(GroupPolicyConfig)
    def validate(self) -> None:
        super().validate()
        for problem in check_fixed_keys(self, advantage_norm="mean", advantage_std_floor=0.0, reference="paper"):
            self._value_error(problem)


class RLOO(GroupPolicy):
    """REINFORCE with a leave-one-out baseline: the same advantage for every step of a trajectory."""

    config: RLOOConfig

    @classmethod
    @override(GroupPolicy)
    def get_default_config(cls) -> RLOOConfig:
        return RLOOConfig()

    @override(GroupPolicy)
    def compute_advantages(self, rows: StepRows) -> np.ndarray:
        return rloo_advantages(
            rows.rewards,
            rows.trajectory_ids,
            rows.group_ids,
            invalid=rows.invalid,
            invalid_action_penalty=self.config.invalid_action_penalty,
        ).total
