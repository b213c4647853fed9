"""Sampling one plan ahead: in which order, what is dropped, and what is refused."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from threading import Event, Timer
from types import SimpleNamespace
from typing import Any

import pytest

from rllib_gigpo.algorithms.group_policy.group_policy import GroupPolicy
from rllib_gigpo.algorithms.group_policy.overlap import OverlappedSampling, check_overlap
from rllib_gigpo.env_runners.rollout_plan import GroupPlan, RolloutPlan
from rllib_gigpo.env_runners.runner_answers import Rollout
from rllib_gigpo.inference.protocol import SamplingParams

pytestmark = pytest.mark.unit


class Plans:
    """Plans of two groups each, and what was done with them."""

    def __init__(self) -> None:
        self.made = 0
        self.rolled_out: list[int] = []
        self.may_go_on = Event()
        self.may_go_on.set()

    def next(self) -> RolloutPlan:
        first, self.made = self.made, self.made + 2
        groups = tuple(GroupPlan(group_id, task=None, env_seed=0, sampling_seed=0) for group_id in (first, first + 1))
        return RolloutPlan(groups, 2, 2, SamplingParams(max_response_tokens=1))

    def roll_out(self, plan: RolloutPlan) -> Rollout:
        assert self.may_go_on.wait(30)
        self.rolled_out.append(plan.groups[0].group_id)
        if plan.groups[0].group_id == 4:
            raise RuntimeError("no env runner is alive")
        return Rollout([], Counter({"groups": plan.groups[0].group_id}), [])


def test_one_plan_is_rolled_out_ahead_and_no_more() -> None:
    plans = Plans()
    overlap = OverlappedSampling(plans.roll_out, plans.next)
    assert overlap.groups_ahead == 0
    for first in (0, 2):
        plan, rollout = overlap.take()
        assert plan.groups[0].group_id == rollout.counts["groups"] == first
        assert overlap.groups_ahead == 0
        overlap.start_next()
        overlap.settle()
        assert plans.rolled_out[-1] == first + 2
        assert plans.made == first + 4
        assert overlap.groups_ahead == 2


def test_an_iteration_without_an_update_ends_with_nothing_being_sampled() -> None:
    """A checkpoint may follow."""
    plans = Plans()
    algo: Any = object.__new__(GroupPolicy)
    algo._overlap = OverlappedSampling(plans.roll_out, plans.next)
    algo._timed = lambda timer: nullcontext()

    def nothing_is_left(plan: RolloutPlan, rollout: Rollout) -> list:
        plans.may_go_on.clear()
        Timer(0.3, plans.may_go_on.set).start()
        return []

    algo._checked = nothing_is_left
    algo.training_step()
    assert plans.rolled_out == [0, 2]
    assert algo._overlap.groups_ahead == 2


def test_what_a_rollout_raises_comes_where_its_groups_are_taken() -> None:
    plans = Plans()
    plans.made = 4
    overlap = OverlappedSampling(plans.roll_out, plans.next)
    overlap.start_next()
    overlap.settle()
    with pytest.raises(RuntimeError, match="no env runner is alive"):
        overlap.take()
    assert overlap.take()[0].groups[0].group_id == 6


def test_a_restore_drops_what_was_sampled_and_counts_what_is_sampled_again_once() -> None:
    plans = Plans()
    overlap = OverlappedSampling(plans.roll_out, plans.next)
    overlap.start_next()
    overlap.restored(groups_ahead=2)
    assert overlap.groups_ahead == 0
    assert overlap.metrics()["resampled_groups"] == 2
    assert overlap.metrics() == {"wait_seconds": 0, "resampled_groups": 0}


def test_stopping_ends_a_rollout_that_goes_on_and_kills_nothing_else() -> None:
    plans = Plans()
    overlap = OverlappedSampling(plans.roll_out, plans.next)
    killed = []

    def kill() -> None:
        killed.append(True)
        plans.may_go_on.set()

    overlap.stop(kill)
    plans.may_go_on.clear()
    overlap.start_next()
    overlap.stop(kill)
    assert killed == [True]
    overlap.stop(kill)
    assert killed == [True]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_weight_lag": 2}, "max_weight_lag=2 must be 0, or 1"),
        ({"num_env_runners": 0}, "num_env_runners=0"),
        ({"dynamic_sampling": True}, "dynamic_sampling=True"),
        ({"importance_weight_cap": None}, "importance_weight_cap=None"),
        ({"engine_sleep_level": 1}, "engine_sleep_level=1"),
    ],
)
def test_what_cannot_be_overlapped_is_named_with_the_way_out(changes: dict, message: str) -> None:
    good = {
        "max_weight_lag": 1,
        "in_evaluation": False,
        "num_env_runners": 1,
        "dynamic_sampling": False,
        "importance_weight_cap": 2.0,
        "engine_sleep_level": None,
    }
    assert list(check_overlap(SimpleNamespace(**good))) == []
    (problem,) = check_overlap(SimpleNamespace(**good | changes))
    assert message in problem
    if "max_weight_lag" not in changes:
        for off in ({"max_weight_lag": 0}, {"in_evaluation": True}):
            assert not list(check_overlap(SimpleNamespace(**good | changes | off)))
