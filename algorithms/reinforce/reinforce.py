"""REINFORCE++: each step's return, normalized over all steps of an iteration."""

from __future__ import annotations

from typing import Any

import numpy as np
from ray.rllib.algorithms.algorithm_config import NotProvided
from ray.rllib.utils.annotations import override

from rllib_gigpo.algorithms.group_policy.fixed_keys import check_fixed_keys
from rllib_gigpo.algorithms.group_policy.group_policy import GroupPolicy
from rllib_gigpo.algorithms.group_policy.group_policy_config import GroupPolicyConfig
from rllib_gigpo.algorithms.reinforce.advantages import reinforce_plus_plus_advantages
from rllib_gigpo.rows import StepRows


class REINFORCEPlusPlusConfig(GroupPolicyConfig):
    """Configures REINFORCE++ (Hu et al. 2025, arXiv 2501.03262) for multi-turn agents.

    Example:
        >>> from rllib_gigpo.algorithms.reinforce import REINFORCEPlusPlusConfig
        >>> config = REINFORCEPlusPlusConfig().environment("EZPoints").training(group_size=1, groups_per_iteration=128)
    """

    # Trajectories are compared over the whole iteration, so one is enough for a group.
    min_group_size = 1

    def __init__(self, algo_class: type | None = None):
        super().__init__(algo_class=algo_class or REINFORCEPlusPlus)
        self.group_baseline = False
        self.gamma = 1.0

    @override(GroupPolicyConfig)
    def training(self, *, group_baseline: bool = NotProvided, **kwargs: Any) -> REINFORCEPlusPlusConfig:
        """Sets the training parameters.

        Args:
            group_baseline: "REINFORCE++ w/ baseline": the mean of its rollout group is subtracted from each
                trajectory's summed reward before the iteration is normalized; gamma then does not apply.
            kwargs: As in `GroupPolicyConfig.training`.
        """
        super().training(**kwargs)
        self._set(group_baseline=group_baseline)
        return self

    @override(GroupPolicyConfig)
    def validate(self) -> None:
        super().validate()
        for problem in check_fixed_keys(self, advantage_norm="std", reference="paper"):
            self._value_error(problem)
        if self.group_baseline and self.group_size < 2:
            self._value_error(
                f"group_baseline needs the mean of a group, and group_size={self.group_size} is too small for one: set "
                "training(group_size=…) to at least 2, or group_baseline=False."
            )


class REINFORCEPlusPlus(GroupPolicy):
    """REINFORCE with a clipped ratio and advantages normalized over the whole iteration."""

    config: REINFORCEPlusPlusConfig

    @classmethod
    @override(GroupPolicy)
    def get_default_config(cls) -> REINFORCEPlusPlusConfig:
        return REINFORCEPlusPlusConfig()

    @override(GroupPolicy)
    def compute_advantages(self, rows: StepRows) -> np.ndarray:
        return reinforce_plus_plus_advantages(
            rows.rewards,
            rows.trajectory_ids,
            rows.group_ids,
            gamma=self.config.gamma,
            group_baseline=self.config.group_baseline,
            invalid=rows.invalid,
            invalid_action_penalty=self.config.invalid_action_penalty,
            std_floor=self.config.advantage_std_floor,
        ).total
