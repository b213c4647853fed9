"""What every algorithm does with advantages: modules apart, which groups have a signal, and what to report of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from rllib_gigpo.rows import StepRows


def advantages_of_modules(
    rows: StepRows, rows_of_modules: Iterable[np.ndarray], compute_advantages: Callable[[StepRows], np.ndarray]
) -> np.ndarray:
    """float32[T], computed from the rows of one module at a time.

    A mean or standard deviation over the batch is then that of the module's own steps: those of a policy with another
    reward or role say nothing of it.

    Args:
        rows: Of all modules.
        rows_of_modules: Indices of each module's rows; every row is in one of them.
        compute_advantages: float32[K] of K rows.
    """
    advantages = np.zeros(len(rows), np.float32)
    for own in rows_of_modules:
        advantages[own] = compute_advantages(rows.take(own))
    return advantages


def has_signal(advantages: np.ndarray, group_ids: np.ndarray) -> np.ndarray:
    """bool[T]: True for every row of a group in which any row's advantage (float32[T]) is not zero."""
    _, group_index = np.unique(group_ids, return_inverse=True)
    any_signal = np.zeros(group_index.max(initial=-1) + 1, bool)
    np.logical_or.at(any_signal, group_index, advantages != 0)
    return any_signal[group_index]


def credit_metrics(advantages: np.ndarray, group_ids: np.ndarray) -> dict[str, float]:
    """Metrics of the advantages (float32[T]) of an iteration's groups; empty without rows."""
    if len(advantages) == 0:
        return {}
    signal = has_signal(advantages, group_ids)
    groups, first_row = np.unique(group_ids, return_index=True)
    lower_quartile, upper_quartile = np.quantile(advantages, (0.25, 0.75))
    return {
        "num_groups": float(len(groups)),
        "zero_signal_share": float(1 - signal[first_row].mean()),
        "advantage_mean": float(advantages.mean()),
        "advantage_std": float(advantages.std()),
        "advantage_iqr": float(upper_quartile - lower_quartile),
        "advantage_abs_max": float(np.abs(advantages).max()),
        "advantage_above_one_share": float((np.abs(advantages) > 1).mean()),
    }
