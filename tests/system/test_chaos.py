"""Training under Tune while processes are killed, the disk fills up and a checkpoint is damaged.

The long form, 20 iterations beside a quiet run, is `python benchmarks/soak.py Chaos`.
"""

from __future__ import annotations

import importlib
import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from ray import tune

from tests.algorithm_cases import small_config

pytestmark = pytest.mark.system

ITERATIONS = 6


@pytest.fixture(scope="module")
def soak_chaos() -> Iterator[Any]:
    """The module, which Ray's and the environments' processes must find too."""
    folder = str(Path(__file__).parents[2] / "benchmarks")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        patch.setenv("PYTHONPATH", folder, prepend=os.pathsep)
        ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
        module = importlib.import_module("soak_chaos")
        # Steps of EZPoints take a millisecond.
        patch.setattr(module, "STEP_TIMEOUT_S", 5.0)
        yield module
        ray.shutdown()


def test_a_schedule_holds_every_fault_and_is_the_seeds(soak_chaos: Any) -> None:
    faults = soak_chaos.schedule(20, seed=3)
    assert faults == soak_chaos.schedule(20, seed=3) != soak_chaos.schedule(20, seed=4)
    assert list(faults) == list(range(2, 20))
    assert list(faults.values()).count(soak_chaos.KILL_LEARNER) == 1
    assert set(faults.values()) == {*soak_chaos.OF_ENVIRONMENTS, soak_chaos.KILL_LEARNER}


def test_what_is_killed_on_schedule_is_counted_once_and_the_run_ends(soak_chaos: Any, tmp_path: Path) -> None:
    faults = soak_chaos.schedule(ITERATIONS, seed=0)
    assert {soak_chaos.KILL_LEARNER, soak_chaos.KILL_RUNNER, soak_chaos.KILL_WORKER} < set(faults.values())
    result, reports = soak_chaos.train(tmp_path, ITERATIONS, faults)
    checks = soak_chaos.judged(ITERATIONS, faults, result, reports)
    assert all(check.status in ("pass", "info") for check in checks), checks
    assert reports[-1]["training_iteration"] == ITERATIONS
    (causes,) = [check.seen for check in checks if check.name == "causes"]
    assert {"RunnerDied", "WorkerDied", "StepTimeout"} <= set(causes.split(", "))
    # The learner's death took the trial with it: an iteration or two were done again.
    assert len({report["pid"] for report in reports}) == 2
    assert not list((tmp_path / "orders").glob("[hkr]*")), "no order is left over"


def test_a_full_disk_and_a_damaged_checkpoint_cost_iterations_and_no_more(soak_chaos: Any, tmp_path: Path) -> None:
    def break_storage(algorithm: Any, result: dict[str, Any], **_: Any) -> None:
        iteration = result["training_iteration"]
        marker = tmp_path / f"broken-{iteration}"
        if iteration not in (3, 4) or marker.exists():
            return
        marker.touch()
        if iteration == 3:  # no file may grow beyond this: what a process sees of a full disk or a quota
            resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
        else:
            latest = sorted((tmp_path / "run").glob("*/checkpoint_*"))[-1]
            (state,) = latest.glob("learner_group/learner/state.pkl")
            state.write_bytes(state.read_bytes()[:-1])
            raise OSError("the machine went away")

    config = small_config(group_size=2, groups_per_iteration=2).generation(max_response_tokens=8)
    run_config = tune.RunConfig(
        name="run",
        storage_path=str(tmp_path),
        stop={"training_iteration": 5},
        checkpoint_config=tune.CheckpointConfig(checkpoint_frequency=1),
        failure_config=tune.FailureConfig(max_failures=2),
        verbose=0,
    )
    param_space = config.callbacks(on_train_result=break_storage)
    (result,) = tune.Tuner("GiGPO", param_space=param_space, run_config=run_config).fit()
    assert result.error is None
    assert result.metrics["training_iteration"] == 5
    # The third checkpoint was damaged: it went on from the second.
    assert result.metrics["iterations_since_restore"] == 3
    assert result.metrics["env_runners"]["planned_groups_lifetime"] == 5 * 2
    errors = (Path(result.path) / "error.txt").read_text()
    assert "Failure # 2" in errors and "the machine went away" in errors
    assert "File too large" in errors or "os error 27" in errors or "learners failed to save their state" in errors
