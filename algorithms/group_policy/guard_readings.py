"""What the guards look at, out of the metrics of an iteration."""

from __future__ import annotations

import math
from collections.abc import Iterable

from ray.rllib.utils.metrics import ENV_RUNNER_RESULTS, LEARNER_RESULTS
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger

from rllib_gigpo.algorithms.group_policy.guards import ModuleReadings, Readings
from rllib_gigpo.learners.finite_steps import NON_FINITE_IN_A_ROW


def read_metrics(metrics: MetricsLogger, updated: Iterable[str]) -> Readings:
    """The readings of the iteration that `metrics` holds, after its update.

    Args:
        metrics: Of the Algorithm.
        updated: Ids of the modules that had rows in the loss.
    """

    def of_rollouts(name: str) -> float:
        return float(metrics.peek((ENV_RUNNER_RESULTS, name), default=math.nan))

    def of_module(module_id: str, name: str) -> float:
        return float(metrics.peek((LEARNER_RESULTS, module_id, name), default=math.nan))

    def module_readings(module_id: str) -> ModuleReadings:
        kls = [of_module(module_id, name) for name in ("kl_to_old", "kl_to_reference")]
        return ModuleReadings(
            non_finite_in_a_row=of_module(module_id, NON_FINITE_IN_A_ROW),
            entropy=of_module(module_id, "entropy"),
            kl=max((kl for kl in kls if not math.isnan(kl)), default=math.nan),
        )

    return Readings(
        response_tokens=of_rollouts("response_tokens_mean"),
        valid_share=1.0 - of_rollouts("invalid_action_share"),
        success_rate=of_rollouts("success_rate"),
        modules={module_id: module_readings(module_id) for module_id in updated},
    )
