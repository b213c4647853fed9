"""Whether what the learner trains on is still what the sampler sampled: a threshold that warns, and one that stops."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping

from rllib_gigpo.learners.update_metrics import NON_FINITE_GRADIENTS, SAMPLER_LEARNER_GAP_MEAN

logger = logging.getLogger(__name__)


def check_sampler_gaps(
    metrics: Mapping[str, Mapping[str, float]], *, warning: float | None, limit: float | None
) -> None:
    """Judges the gaps of all modules that were updated, by their metrics; see `check_sampler_gap`."""
    for module_id, of_module in metrics.items():
        if SAMPLER_LEARNER_GAP_MEAN not in of_module:
            continue  # of a policy that is not to be trained
        gap = float(of_module[SAMPLER_LEARNER_GAP_MEAN])
        # Steps that are not finite are the guards', and leave no gap: where there was no other one, that is no news.
        if not (math.isnan(gap) and of_module[NON_FINITE_GRADIENTS] > 0):
            check_sampler_gap(gap, module_id, warning=warning, limit=limit)


def check_sampler_gap(gap: float, module_id: str, *, warning: float | None, limit: float | None) -> None:
    """Judges the gap of an update.

    Importance weights correct a small gap. A large one has a cause that they cannot correct: an engine that samples
    from another distribution than the loss assumes, or from other weights.

    Args:
        gap: Mean absolute difference of log-probabilities, nats per sampled token; NaN counts as above any threshold.
        module_id: Whose.
        warning: A larger gap is logged as a warning; None is off.
        limit: A larger gap is an error; None is off.

    Raises:
        RuntimeError: The gap is above `limit`.
    """
    # NaN compares False.
    if limit is not None and not gap <= limit:
        raise RuntimeError(
            f"module {module_id!r}: the learner's log-probabilities of the sampled tokens differ from the sampler's by "
            f"{gap:.3g} nats per token on average (sampler_learner_gap_mean), more than sampler_gap_limit={limit:g}: "
            "engine and learner do not compute the same policy. Compare model_dtype and engine_options with the model, "
            "or raise training(sampler_gap_limit=…)."
        )
    if warning is not None and not gap <= warning:
        logger.warning(
            "module %r: sampler_learner_gap_mean is %.3g nats per token, above sampler_gap_warning=%g",
            module_id,
            gap,
            warning,
        )
