"""Overlap: the groups of the next iteration are sampled while the learners update on those of this one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from threading import Thread
from typing import Any

from rllib_gigpo.env_runners.rollout_plan import RolloutPlan
from rllib_gigpo.env_runners.runner_answers import Rollout

OVERLAP_RESULTS = "overlap"

_STOP_TIMEOUT_S = 60.0


class OverlappedSampling:
    """Samples one plan ahead: an update learns from what the weights before the last update have sampled.

    The order of an iteration is `take`, `start_next`, update, `settle`, delivery of the weights. Env runners are busy
    between `start_next` and `settle` alone; whatever else calls them must settle first. So no batch is older than one
    update, weights never change in the middle of a rollout, and failures of runners are handled where they are without
    overlap: in the iteration that learns from what is left.

    Args:
        roll_out: Rolls a plan out; called in a thread of its own, one call at a time.
        next_plan: Makes the next plan and moves the task cursor past it.
    """

    def __init__(self, roll_out: Callable[[RolloutPlan], Rollout], next_plan: Callable[[], RolloutPlan]):
        self._roll_out = roll_out
        self._next_plan = next_plan
        self._ahead: tuple[RolloutPlan, Future[Rollout]] | None = None
        self._waited_s = 0.0
        self._resampled_groups = 0

    @property
    def groups_ahead(self) -> int:
        """Groups that were taken from the task stream and that no update has learned from."""
        return 0 if self._ahead is None else len(self._ahead[0].groups)

    def take(self) -> tuple[RolloutPlan, Rollout]:
        """The next plan, and what came out of it.

        Raises:
            RuntimeError: As `roll_out`. The plan's groups are lost then.
        """
        if self._ahead is None:
            self.start_next()
        assert self._ahead is not None
        self.settle()
        (plan, rollout), self._ahead = self._ahead, None
        return plan, rollout.result()

    def start_next(self) -> None:
        """Begins to roll out the next plan."""
        plan, rollout = self._next_plan(), Future[Rollout]()
        self._ahead = (plan, rollout)
        # A daemon: no process must live on for a rollout that nobody will learn from.
        Thread(target=_run, args=(self._roll_out, plan, rollout), name="overlapped rollout", daemon=True).start()

    def settle(self) -> None:
        """Waits until no rollout is going on. What it raised comes out of `take`."""
        if self._ahead is not None:
            start = time.perf_counter()
            self._ahead[1].exception()
            self._waited_s += time.perf_counter() - start

    def restored(self, groups_ahead: int) -> None:
        """Drops what was sampled ahead; it is of another state of the run.

        Args:
            groups_ahead: Of the state that was restored. Its task cursor is before them, so they are sampled again.
        """
        self.settle()
        self._ahead = None
        self._resampled_groups = groups_ahead

    def metrics(self) -> dict[str, float]:
        """What is logged under "overlap" of an iteration, once."""
        metrics = {"wait_seconds": self._waited_s, "resampled_groups": float(self._resampled_groups)}
        self._waited_s, self._resampled_groups = 0.0, 0
        return metrics

    def stop(self, kill_runners: Callable[[], Any]) -> None:
        """Ends a rollout that is going on, which takes its runners' lives."""
        if self._ahead is None or self._ahead[1].done():
            return
        kill_runners()
        self._ahead[1].exception(timeout=_STOP_TIMEOUT_S)


def _run(roll_out: Callable[[RolloutPlan], Rollout], plan: RolloutPlan, rollout: Future[Rollout]) -> None:
    try:
        rollout.set_result(roll_out(plan))
    except BaseException as error:
        rollout.set_exception(error)


def check_overlap(config: Any) -> Iterator[str]:
    """Yields a message for each value of a GroupPolicyConfig with which the next groups cannot be sampled ahead."""
    lag = config.max_weight_lag
    if lag not in (0, 1):
        yield f"max_weight_lag={lag!r} must be 0, or 1 for sampling during the update of the iteration before."
    if lag != 1 or config.in_evaluation:  # RLlib sets other numbers of env runners for an evaluation
        return
    hint = "or set env_runners(max_weight_lag=0)."
    if config.num_env_runners == 0:
        yield (
            "max_weight_lag=1 samples while the learners update, and with num_env_runners=0 both are one process: set "
            f"env_runners(num_env_runners=…) to at least 1, {hint}"
        )
    if config.dynamic_sampling:
        yield (
            "max_weight_lag=1 does not go with dynamic_sampling=True, which decides by this iteration's advantages "
            f"what to sample: set training(dynamic_sampling=False), {hint}"
        )
    if config.importance_weight_cap is None:
        yield (
            "max_weight_lag=1 learns from groups of the policy before, which importance_weight_cap=None leaves "
            f"uncorrected: set training(importance_weight_cap=2.0), {hint}"
        )
    if config.engine_sleep_level is not None:
        yield (
            f"max_weight_lag=1 samples during the update, when engine_sleep_level={config.engine_sleep_level} has the "
            f"engines give their memory back: set generation(engine_sleep_level=None), {hint}"
        )
