"""Ends a run that goes on losing everything: a failure of the infrastructure may pass, one that stays must not hide."""

from __future__ import annotations

from rllib_gigpo.env_runners.group_rollout import FAILURE_KINDS
from rllib_gigpo.env_runners.runner_answers import Rollout
from rllib_gigpo.failures import FailureKind

# Iterations on end that may be lost.
LOST_ITERATIONS_ALLOWED = 3


class LossWatch:
    """Counts iterations without any trajectory in which the infrastructure failed."""

    def __init__(self) -> None:
        self._lost_iterations = 0

    def look_at(self, rollout: Rollout) -> None:
        """Of one iteration.

        Raises:
            RuntimeError: More than LOST_ITERATIONS_ALLOWED on end were lost.
        """
        if rollout.episodes:
            self._lost_iterations = 0
        elif rollout.counts[f"{FAILURE_KINDS}/{FailureKind.INFRASTRUCTURE}"]:
            self._lost_iterations += 1
        if self._lost_iterations > LOST_ITERATIONS_ALLOWED:
            raise RuntimeError(
                f"{self._lost_iterations} iterations on end lost all of their trajectories to failures of the "
                f"infrastructure; the last cause: {rollout.last_failure}"
            )
