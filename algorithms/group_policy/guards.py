"""Guards: named warnings when training goes wrong in a way that a curve shows too late, and an optional stop."""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

logger = logging.getLogger(__name__)

GUARD_RESULTS = "guards"

NON_FINITE = "non_finite_steps"
ENTROPY_COLLAPSE = "entropy_collapse"
LENGTH_BLOWUP = "length_blowup"
VALID_ACTION_COLLAPSE = "valid_action_collapse"
KL_RUNAWAY = "kl_runaway"

# What to try; docs/troubleshooting.md says more.
ADVICE = {
    NON_FINITE: "a lower lr, a smaller grad_clip, model_dtype='float32'; look for infinite values in your own pieces",
    ENTROPY_COLLAPSE: "a lower lr, entropy_coeff, clip_high above clip_low, kl_coeff, a higher temperature",
    LENGTH_BLOWUP: "a smaller max_response_tokens, loss_aggregation='sequence-mean-token-mean', stop strings, kl_coeff",
    VALID_ACTION_COLLAPSE: "a lower lr, invalid_action_penalty, advantage_std_floor, kl_coeff",
    KL_RUNAWAY: "a lower lr, a higher kl_coeff, fewer num_minibatches or num_epochs, a smaller clip_high",
}

# The key of the config that sets each of them, or switches it off.
KEYS = {
    NON_FINITE: "max_non_finite_steps",
    ENTROPY_COLLAPSE: "min_entropy",
    LENGTH_BLOWUP: "max_length_growth",
    VALID_ACTION_COLLAPSE: "min_valid_action_ratio",
    KL_RUNAWAY: "max_kl",
}

# Iterations that are averaged before anything is judged.
WINDOW = 3
# A policy that solves its tasks may be certain of them.
SOLVED = 0.95


class GuardStop(RuntimeError):
    """A guard has ended the run."""


@dataclass(frozen=True)
class GuardLimits:
    """What the guards allow; None is off. See `GuardedConfig.guards`."""

    max_non_finite_steps: int | None = 10
    min_entropy: float | None = 0.01
    max_length_growth: float | None = 3.0
    min_valid_action_ratio: float | None = 0.5
    max_kl: float | None = 1.0
    stop_on_guards: tuple[str, ...] = ()


@dataclass(frozen=True)
class ModuleReadings:
    """What an update says of a module; NaN where it says nothing.

    Attributes:
        non_finite_in_a_row: Longest row of optimizer steps that were left out for a loss or gradient that is not
            finite.
        entropy: Nats per response token.
        kl: Nats per response token, the larger one of that to the policy before the update and to the reference.
    """

    non_finite_in_a_row: float = 0.0
    entropy: float = math.nan
    kl: float = math.nan


@dataclass(frozen=True)
class Readings:
    """What an iteration says; NaN where it says nothing.

    Attributes:
        response_tokens: Mean length of a response.
        valid_share: Of the actions.
        success_rate: Of the trajectories.
        modules: By id, those that were updated.
    """

    response_tokens: float = math.nan
    valid_share: float = math.nan
    success_rate: float = math.nan
    modules: Mapping[str, ModuleReadings] = field(default_factory=dict)


class Guards:
    """Judges every iteration.

    Each guard but the first looks at means over WINDOW iterations:
        non_finite_steps: So many optimizer steps in a row had a loss or gradient that is not finite.
        entropy_collapse: The entropy is below min_entropy, and less than 95 % of the tasks are won.
        length_blowup: Responses are max_length_growth times as long as at first.
        valid_action_collapse: The share of valid actions is below min_valid_action_ratio times the best so far.
        kl_runaway: The KL to the policy before the update, or to the reference policy, is above max_kl.
    """

    def __init__(self, limits: GuardLimits):
        self._limits = limits
        self._windows: dict[str, deque[float]] = {}
        self._first_length: float | None = None
        self._best_valid_share = 0.0
        self._in_a_row = dict.fromkeys(ADVICE, 0)

    def look_at(self, readings: Readings) -> dict[str, float]:
        """Judges an iteration, and warns of each guard that has just found something.

        Returns:
            By guard, for how many iterations on end it has found something; 0: it finds nothing.
        """
        findings = {
            NON_FINITE: self._non_finite(readings),
            ENTROPY_COLLAPSE: self._entropy(readings),
            LENGTH_BLOWUP: self._length(readings),
            VALID_ACTION_COLLAPSE: self._valid_actions(readings),
            KL_RUNAWAY: self._kl(readings),
        }
        for name, found in findings.items():
            self._in_a_row[name] = self._in_a_row[name] + 1 if found else 0
            if self._in_a_row[name] == 1:
                logger.warning("guard %s: %s. What to try: %s.", name, found, ADVICE[name])
        self._findings = findings
        return {name: float(count) for name, count in self._in_a_row.items()}

    def check(self) -> None:
        """Raises GuardStop where what `look_at` has found last is to end the run."""
        for name, found in self._findings.items():
            if found and (name == NON_FINITE or name in self._limits.stop_on_guards):
                raise GuardStop(f"guard {name} ends the run: {found}. What to try: {ADVICE[name]}.")

    def get_state(self) -> dict[str, Any]:
        """For checkpoints: a run that goes on compares with its own beginning."""
        return {
            "windows": {key: list(window) for key, window in self._windows.items()},
            "first_length": self._first_length,
            "best_valid_share": self._best_valid_share,
            "in_a_row": dict(self._in_a_row),
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        self._windows = {key: deque(values, WINDOW) for key, values in state["windows"].items()}
        self._first_length = state["first_length"]
        self._best_valid_share = state["best_valid_share"]
        self._in_a_row |= state["in_a_row"]

    def _mean(self, key: str, value: float) -> float:
        """Mean of the last WINDOW values that are numbers; NaN as long as there are fewer."""
        window = self._windows.setdefault(key, deque(maxlen=WINDOW))
        if not math.isnan(value):
            window.append(value)
        return sum(window) / WINDOW if len(window) == WINDOW else math.nan

    def _non_finite(self, readings: Readings) -> str | None:
        limit = self._limits.max_non_finite_steps
        for module_id, module in readings.modules.items():
            if limit is not None and module.non_finite_in_a_row >= limit:
                return (
                    f"{module.non_finite_in_a_row:.0f} optimizer steps of {module_id} in a row had a loss or gradient "
                    f"that is not finite (max_non_finite_steps={limit}); none of them was taken"
                )
        return None

    def _entropy(self, readings: Readings) -> str | None:
        limit, solved = self._limits.min_entropy, self._mean("success_rate", readings.success_rate) >= SOLVED
        found = None
        for module_id, module in readings.modules.items():
            entropy = self._mean(f"entropy of {module_id}", module.entropy)
            if limit is not None and entropy < limit and not solved:
                found = f"{module_id} samples with an entropy of {entropy:.2g} nats per token (min_entropy={limit:g})"
        return found

    def _length(self, readings: Readings) -> str | None:
        limit, length = self._limits.max_length_growth, self._mean("length", readings.response_tokens)
        if self._first_length is None and not math.isnan(length):
            self._first_length = length
        if limit is None or self._first_length is None or not length > limit * self._first_length:
            return None
        return (
            f"responses have {length:.0f} tokens on average, {length / self._first_length:.1f} times as many as at "
            f"first (max_length_growth={limit:g})"
        )

    def _valid_actions(self, readings: Readings) -> str | None:
        limit, share = self._limits.min_valid_action_ratio, self._mean("valid_share", readings.valid_share)
        if not math.isnan(share):
            self._best_valid_share = max(self._best_valid_share, share)
        if limit is None or not share < limit * self._best_valid_share:
            return None
        return (
            f"{share:.1%} of the actions are valid, after {self._best_valid_share:.1%} at best "
            f"(min_valid_action_ratio={limit:g})"
        )

    def _kl(self, readings: Readings) -> str | None:
        limit, found = self._limits.max_kl, None
        for module_id, module in readings.modules.items():
            kl = self._mean(f"KL of {module_id}", module.kl)
            if limit is not None and kl > limit:
                found = f"{module_id} has moved by a KL of {kl:.2g} nats per token (max_kl={limit:g})"
        return found
