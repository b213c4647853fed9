"""DAPO: GRPO's advantage, from groups with a signal only, with a penalty on over-long responses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from ray.rllib.algorithms.algorithm_config import NotProvided
from ray.rllib.utils.annotations import override

from rllib_gigpo.algorithms.dapo.overlong import overlong_penalties
from rllib_gigpo.algorithms.grpo.grpo import GRPO, GRPOConfig
from rllib_gigpo.rows import StepRows


class DAPOConfig(GRPOConfig):
    """Configures DAPO (Yu et al. 2025, arXiv 2503.14476) for multi-turn agents.

    Example:
        >>> from rllib_gigpo.algorithms.dapo import DAPOConfig
        >>> config = (
        ...     DAPOConfig()
        ...     .environment("EZPoints")
        ...     .training(group_size=8, groups_per_iteration=16, max_sampling_rounds=5, overlong_penalty_buffer=64)
        ... )
    """

    def __init__(self, algo_class: type | None = None):
        super().__init__(algo_class=algo_class or DAPO)
        self.overlong_penalty_buffer: int | None = None
        self.overlong_penalty = 1.0
        self.clip_low = 0.2
        self.clip_high = 0.28
        self.loss_aggregation = "token-mean"
        self.kl_coeff = 0.0
        self.dynamic_sampling = True

    @override(GRPOConfig)
    def training(
        self, *, overlong_penalty_buffer: int | None = NotProvided, overlong_penalty: float = NotProvided, **kwargs: Any
    ) -> DAPOConfig:
        """Sets the training parameters.

        Args:
            overlong_penalty_buffer: How many tokens before `max_response_tokens` the penalty on long responses begins.
                0 is off; None: a fifth of `max_response_tokens`.
            overlong_penalty: What a response of `max_response_tokens` costs, in reward units; the cost rises to it in
                a straight line. It is part of the reward of the response's step; episode rewards never hold it.
            kwargs: As in `GroupPolicyConfig.training`.
        """
        super().training(**kwargs)
        self._set(overlong_penalty_buffer=overlong_penalty_buffer, overlong_penalty=overlong_penalty)
        return self

    @override(GRPOConfig)
    def validate(self) -> None:
        super().validate()
        if not self.overlong_penalty >= 0:
            self._value_error(f"overlong_penalty={self.overlong_penalty!r} must not be negative.")
        # Evaluation, which may cut responses earlier, has no penalty.
        if not self.in_evaluation and self.resolved_overlong_buffer() > self.max_response_tokens:
            self._value_error(
                f"overlong_penalty_buffer={self.overlong_penalty_buffer} is more than max_response_tokens="
                f"{self.max_response_tokens}: even an empty response would be penalized. Lower it, or set it to 0 for "
                "no penalty."
            )

    def resolved_overlong_buffer(self) -> int:
        """`overlong_penalty_buffer` with its default resolved, in tokens."""
        if self.overlong_penalty_buffer is None:
            return self.max_response_tokens // 5
        return self.overlong_penalty_buffer


class DAPO(GRPO):
    """Decoupled clip and dynamic sampling policy optimization."""

    config: DAPOConfig

    @classmethod
    @override(GRPO)
    def get_default_config(cls) -> DAPOConfig:
        return DAPOConfig()

    @override(GRPO)
    def compute_advantages(self, rows: StepRows) -> np.ndarray:
        return super().compute_advantages(replace(rows, rewards=rows.rewards - self._overlong_penalties(rows)))

    @override(GRPO)
    def credit_metrics(self, rows: StepRows, advantages: np.ndarray) -> dict[str, float]:
        penalties = self._overlong_penalties(rows)
        return super().credit_metrics(rows, advantages) | {
            "overlong_share": float((penalties > 0).mean()),
            "overlong_penalty_mean": float(penalties.mean()),
        }

    def _overlong_penalties(self, rows: StepRows) -> np.ndarray:
        """float64[T], reward units."""
        return overlong_penalties(
            rows.response_lengths,
            max_response_tokens=self.config.max_response_tokens,
            buffer_tokens=self.config.resolved_overlong_buffer(),
            penalty=self.config.overlong_penalty,
        )
