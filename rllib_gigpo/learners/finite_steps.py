"""Keeps losses and gradients that are not finite away from weights and optimizers, and counts them."""

from __future__ import annotations

import logging
from collections import Counter

from ray.rllib.utils.metrics.metrics_logger import MetricsLogger

logger = logging.getLogger(__name__)

NON_FINITE_IN_A_ROW = "non_finite_steps_in_a_row"


class FiniteSteps:
    """Counts, for each model, the optimizer steps on end that were left out; one that is taken starts anew.

    Args:
        metrics: Gets the longest row of an update.
    """

    def __init__(self, metrics: MetricsLogger):
        self._metrics = metrics
        self._in_a_row: Counter[str] = Counter()

    def may_take(self, model_id: str, is_finite: bool, *, policy_id: str) -> bool:
        """Whether a step may be taken.

        Args:
            model_id: Whose step; a policy, or its critic.
            is_finite: Whether loss and gradient are, over all learners: each must come to the same answer.
            policy_id: Where it is logged.
        """
        self._in_a_row[model_id] = 0 if is_finite else self._in_a_row[model_id] + 1
        in_a_row = self._in_a_row[model_id]
        self._metrics.log_value((policy_id, NON_FINITE_IN_A_ROW), in_a_row, reduce="max")
        if not is_finite:
            logger.warning(
                "%s: loss or gradient is not finite, optimizer step skipped (%d in a row)", model_id, in_a_row
            )
        return is_finite
