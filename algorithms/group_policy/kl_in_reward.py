"""The KL to the reference policy as a penalty in the reward of each step, instead of a term of the loss."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from ray.rllib.utils.schedules.scheduler import Scheduler

from rllib_gigpo.learners.losses import KLEstimator, kl_penalty
from rllib_gigpo.rows import TokenRows


def kl_penalties(rows: TokenRows, *, estimator: KLEstimator) -> np.ndarray:
    """Σ over the tokens of each response of the estimated KL(π_old ‖ π_ref): float64[T]; see `losses.kl_penalty`.

    Args:
        rows: With old_logp, the learner's own, and reference_logp.
        estimator: "k1", "k2" or "k3". A "k1" can be negative: then it is a bonus.
    """
    assert rows.old_logp is not None and rows.reference_logp is not None
    old, reference = (torch.from_numpy(logp.astype(np.float64)) for logp in (rows.old_logp, rows.reference_logp))
    row = np.repeat(np.arange(len(rows)), rows.response_lengths)
    return np.bincount(row, weights=kl_penalty(old, reference, estimator).numpy(), minlength=len(rows))


def coefficient_at(kl_coeff: Any, timestep: int) -> float:
    """The value of `kl_coeff`, a number or a schedule [[timestep, value], …], after `timestep` environment steps."""
    scheduler = Scheduler(kl_coeff)
    scheduler.update(timestep=timestep)
    return float(scheduler.get_current_value())
