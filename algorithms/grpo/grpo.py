"""GRPO: one advantage per trajectory, relative to the other trajectories of its rollout group."""

from __future__ import annotations

import numpy as np
from ray.rllib.utils.annotations import override

from rllib_gigpo.algorithms.group_policy.group_policy import GroupPolicy
from rllib_gigpo.algorithms.group_policy.group_policy_config import GroupPolicyConfig
from rllib_gigpo.algorithms.grpo.advantages import grpo_advantages
from rllib_gigpo.rows import StepRows


class GRPOConfig(GroupPolicyConfig):
    """Configures GRPO (Shao et al. 2024, arXiv 2402.03300) for multi-turn agents.

    Example:
        >>> from rllib_gigpo.algorithms.grpo import GRPOConfig
        >>> config = GRPOConfig().environment("EZPoints").training(group_size=8, groups_per_iteration=16, lr=1e-6)
    """

    def __init__(self, algo_class: type | None = None):
        super().__init__(algo_class=algo_class or GRPO)


class GRPO(GroupPolicy):
    """Group-relative policy optimization: the same advantage for every step of a trajectory."""

    config: GRPOConfig

    @classmethod
    @override(GroupPolicy)
    def get_default_config(cls) -> GRPOConfig:
        return GRPOConfig()

    @override(GroupPolicy)
    def compute_advantages(self, rows: StepRows) -> np.ndarray:
        return grpo_advantages(
            rows.rewards,
            rows.trajectory_ids,
            rows.group_ids,
            norm=self.config.advantage_norm,
            reference=self.config.reference,
            invalid=rows.invalid,
            invalid_action_penalty=self.config.invalid_action_penalty,
            std_floor=self.config.advantage_std_floor,
        ).total
