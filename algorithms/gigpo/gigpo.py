"""GiGPO: trajectory advantages plus advantages among the steps that a rollout group took from the same anchor state."""

from __future__ import annotations

from typing import Any

import numpy as np
from ray.rllib.algorithms.algorithm_config import NotProvided
from ray.rllib.utils.annotations import override

from rllib_gigpo.algorithms.gigpo.advantages import GiGPOAdvantages, gigpo_advantages
from rllib_gigpo.algorithms.group_policy.anchored_policy_config import AnchoredPolicyConfig
from rllib_gigpo.algorithms.group_policy.group_policy import GroupPolicy
from rllib_gigpo.rows import StepRows


class GiGPOConfig(AnchoredPolicyConfig):
    """Configures GiGPO (Feng et al. 2025, arXiv 2505.10978).

    Example:
        >>> from rllib_gigpo.algorithms.gigpo import GiGPOConfig
        >>> config = (
        ...     GiGPOConfig()
        ...     .environment("EZPoints")
        ...     .training(group_size=8, groups_per_iteration=16, gamma=0.95, step_advantage_weight=1.0)
        ... )
    """

    def __init__(self, algo_class: type | None = None):
        super().__init__(algo_class=algo_class or GiGPO)
        self.step_advantage_weight = 1.0

    @override(AnchoredPolicyConfig)
    def training(self, *, step_advantage_weight: float = NotProvided, **kwargs: Any) -> GiGPOConfig:
        """Sets the training parameters.

        Args:
            step_advantage_weight: Weight of the step advantage, ω in the paper.
            kwargs: As in `AnchoredPolicyConfig.training` and `GroupPolicyConfig.training`.
        """
        super().training(**kwargs)
        self._set(step_advantage_weight=step_advantage_weight)
        return self

    @override(AnchoredPolicyConfig)
    def validate(self) -> None:
        super().validate()
        if not self.step_advantage_weight >= 0:
            self._value_error(f"step_advantage_weight={self.step_advantage_weight!r} must not be negative.")


class GiGPO(GroupPolicy):
    """Group-in-group policy optimization: step-level credit without a critic and without extra rollouts."""

    config: GiGPOConfig

    @classmethod
    @override(GroupPolicy)
    def get_default_config(cls) -> GiGPOConfig:
        return GiGPOConfig()

    @override(GroupPolicy)
    def compute_advantages(self, rows: StepRows) -> np.ndarray:
        return self._advantages(rows).total

    @override(GroupPolicy)
    def credit_columns(self, rows: StepRows) -> dict[str, np.ndarray]:
        parts = self._advantages(rows)
        return {"return": parts.returns, "episode_advantage": parts.episode, "step_advantage": parts.step}

    @override(GroupPolicy)
    def credit_metrics(self, rows: StepRows, advantages: np.ndarray) -> dict[str, float]:
        # An inert step advantage (anchors that never repeat) would otherwise look like a healthy GRPO run.
        parts = self._advantages(rows)
        return super().credit_metrics(rows, advantages) | {
            "episode_advantage_std": float(parts.episode.std()),
            "step_advantage_std": float(parts.step.std()),
            "step_advantage_zero_share": float((parts.step == 0).mean()),
        }

    def _advantages(self, rows: StepRows) -> GiGPOAdvantages:
        return gigpo_advantages(
            rows.rewards,
            rows.trajectory_ids,
            rows.group_ids,
            rows.anchor_ids,
            gamma=self.config.gamma,
            step_advantage_weight=self.config.step_advantage_weight,
            norm=self.config.advantage_norm,
            reference=self.config.reference,
            invalid=rows.invalid,
            invalid_action_penalty=self.config.invalid_action_penalty,
            std_floor=self.config.advantage_std_floor,
        )
