"""GAGPO: generalized advantage estimation with the mean return of the group's own states in place of a critic."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from ray.rllib.algorithms.algorithm_config import NotProvided
from ray.rllib.utils.annotations import override

from rllib_gigpo.algorithms.gagpo.advantages import GAGPOAdvantages, gagpo_advantages
from rllib_gigpo.algorithms.group_policy.anchored_policy_config import AnchoredPolicyConfig
from rllib_gigpo.algorithms.group_policy.fixed_keys import check_fixed_keys
from rllib_gigpo.algorithms.group_policy.group_policy import GroupPolicy
from rllib_gigpo.rows import StepRows

_NORMALIZATIONS = ("group", "batch", "none")


class GAGPOConfig(AnchoredPolicyConfig):
    """Configures GAGPO (arXiv 2605.13217).

    Example:
        >>> from rllib_gigpo.algorithms.gagpo import GAGPOConfig
        >>> config = (
        ...     GAGPOConfig()
        ...     .environment("EZPoints")
        ...     .training(group_size=8, groups_per_iteration=16, gamma=0.95, lambda_=0.95)
        ... )
    """

    def __init__(self, algo_class: type | None = None):
        super().__init__(algo_class=algo_class or GAGPO)
        self.lambda_ = 0.95
        self.bootstrap_truncated = False
        self.advantage_normalization: Literal["group", "batch", "none"] = "group"
        self.trajectory_advantage_weight = 0.0
        # One ratio per response; it moves far less than a token's, and its clip range belongs to it.
        self.ratio = "sequence"
        self.clip_low = 0.02
        self.clip_high = 0.02
        self.loss_aggregation = "sequence-mean-token-mean"

    @override(AnchoredPolicyConfig)
    def training(
        self,
        *,
        lambda_: float = NotProvided,
        bootstrap_truncated: bool = NotProvided,
        advantage_normalization: Literal["group", "batch", "none"] = NotProvided,
        trajectory_advantage_weight: float = NotProvided,
        **kwargs: Any,
    ) -> GAGPOConfig:
        """Sets the training parameters.

        Args:
            lambda_: λ of the advantage recursion, in [0, 1]; 0 is the one-step error, 1 the Monte-Carlo advantage.
            bootstrap_truncated: Whether a trajectory that was cut off continues in the value of its last state. If not,
                a limit counts as an end: the returns that the values are means of hold nothing after it either.
            advantage_normalization: The steps that share mean and standard deviation: those of a rollout "group", of
                the "batch", or "none".
            trajectory_advantage_weight: Weight of an added GRPO advantage; the paper adds none.
            kwargs: As in `AnchoredPolicyConfig.training` and `GroupPolicyConfig.training`.
        """
        super().training(**kwargs)
        self._set(
            lambda_=lambda_,
            bootstrap_truncated=bootstrap_truncated,
            advantage_normalization=advantage_normalization,
            trajectory_advantage_weight=trajectory_advantage_weight,
        )
        return self

    @override(AnchoredPolicyConfig)
    def validate(self) -> None:
        super().validate()
        if not 0 <= self.lambda_ <= 1:
            self._value_error(f"lambda_={self.lambda_!r} must be in [0, 1].")
        if self.advantage_normalization not in _NORMALIZATIONS:
            choices = ", ".join(map(repr, _NORMALIZATIONS))
            self._value_error(
                f"advantage_normalization={self.advantage_normalization!r} is unknown; choose one of {choices}."
            )
        if not self.trajectory_advantage_weight >= 0:
            self._value_error(f"trajectory_advantage_weight={self.trajectory_advantage_weight!r} must not be negative.")
        # `advantage_normalization` says what `advantage_norm` says elsewhere, and there is no published code.
        for problem in check_fixed_keys(self, advantage_norm="std", reference="paper"):
            self._value_error(problem)


class GAGPO(GroupPolicy):
    """One signal per step, without a critic: how much better the group did after this step than before it."""

    config: GAGPOConfig

    @classmethod
    @override(GroupPolicy)
    def get_default_config(cls) -> GAGPOConfig:
        return GAGPOConfig()

    @override(GroupPolicy)
    def compute_advantages(self, rows: StepRows) -> np.ndarray:
        return self._advantages(rows).total

    @override(GroupPolicy)
    def credit_columns(self, rows: StepRows) -> dict[str, np.ndarray]:
        parts = self._advantages(rows)
        return {"return": parts.returns, "value": parts.value}

    def _advantages(self, rows: StepRows) -> GAGPOAdvantages:
        normalization = self.config.advantage_normalization
        return gagpo_advantages(
            rows.rewards,
            rows.trajectory_ids,
            rows.group_ids,
            rows.anchor_ids,
            gamma=self.config.gamma,
            lambda_=self.config.lambda_,
            terminated=rows.terminated if self.config.bootstrap_truncated else None,
            normalize=normalization != "none",
            normalize_over="batch" if normalization == "batch" else "group",
            invalid=rows.invalid,
            invalid_action_penalty=self.config.invalid_action_penalty,
            std_floor=self.config.advantage_std_floor,
            trajectory_advantage_weight=self.config.trajectory_advantage_weight,
        )
