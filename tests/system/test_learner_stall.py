"""A learner that hangs without dying ends the update with one error that names it and where it stands."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray

from rllib_gigpo.algorithms.group_policy.learner_update import update_learners
from rllib_gigpo.algorithms.group_policy.weight_delivery import prove_weights, take_weights
from rllib_gigpo.failures import failure_of
from rllib_gigpo.learners.learner_progress import LearnerStalled, count_pass
from tests.learner_cases import build_learner_group, random_rows
from tests.tiny_models import save_tiny_model

pytestmark = pytest.mark.system

STALL_S = 6.0


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def _second_learner_is_slow_then_hangs(learner: Any) -> None:
    """Puts something in the place of the second learner's passes: a fake that first takes longer than the limit, with a
    pass now and then, and then hangs."""
    if learner._learner_index != 1:
        return
    update_module = learner._update_module

    def slow(*arguments: Any) -> float:
        for _ in range(3):
            time.sleep(STALL_S / 2)
            count_pass()
        learner._update_module = hangs_for_good
        return update_module(*arguments)

    def hangs_for_good(*arguments: Any) -> float:
        time.sleep(3600)
        return 0.0

    learner._update_module = slow


@pytest.mark.timeout(300)
def test_a_slow_learner_is_waited_for_and_one_that_hangs_is_named(tmp_path: Path) -> None:
    directory = save_tiny_model(tmp_path / "model")
    group = build_learner_group(directory, num_learners=2, learner_stall_timeout_s=STALL_S)
    try:
        group.foreach_learner(_second_learner_is_slow_then_hangs)
        assert len(update_learners(group, random_rows(4))) == 2
        with pytest.raises(LearnerStalled) as stalled:
            update_learners(group, random_rows(4))
        message = str(stalled.value)
        assert message.startswith(
            f"learner 1 has got no further in its update for {STALL_S:g} s (learner_stall_timeout_s), after 0 passes"
        )
        assert "in hangs_for_good\n    time.sleep(3600)" in message
        # It waits within an exchange, which is no fault of its own.
        assert "Learners 0 wait for it in an exchange." in message
        assert "learner 0 has got" not in message
        # So that Tune's FailureConfig has a reason to try again, and nobody is left waiting.
        assert failure_of(stalled.value).is_infrastructure
        for learner in group._workers:
            with pytest.raises(ray.exceptions.RayActorError):
                ray.get(learner.policy_ids.remote(), timeout=60)
    finally:
        group.shutdown()


def _hangs_in_its_probe(learner: Any) -> None:
    """Puts something in the place of what a delivery asks for."""
    learner.probe = lambda module_id: time.sleep(3600)


@pytest.mark.timeout(300)
def test_a_learner_that_does_not_give_its_weights_is_not_waited_for(tmp_path: Path) -> None:
    group = build_learner_group(save_tiny_model(tmp_path / "model"), num_learners=1, learner_stall_timeout_s=STALL_S)
    try:
        assert take_weights(group, by_reference=True).version == 0
        group.foreach_learner(_hangs_in_its_probe)
        with pytest.raises(
            LearnerStalled, match=r"learner 0 has not given the proof of its weights within 6 s \(learner_stall"
        ):
            prove_weights(group)
        with pytest.raises(ray.exceptions.RayActorError):
            ray.get(group._workers[0].policy_ids.remote(), timeout=60)
    finally:
        group.shutdown()
