"""The `vllm` engine in an env runner of its own: it trains, its death is survived, and it ends with its runner."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import ray

from rllib_gigpo.columns import WEIGHTS_VERSION
from tests.algorithm_cases import record_samples, small_config
from tests.vllm_cases import KillsItsEngine, engine_processes, needs_vllm

pytestmark = [pytest.mark.system, pytest.mark.timeout(1800), needs_vllm]


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def process_of(algo: Any) -> psutil.Process:
    """The env runner's."""
    return psutil.Process(algo.env_runner_group.foreach_env_runner(lambda runner: os.getpid())[0])


def wait_until_gone(process: psutil.Process) -> None:
    for _ in range(300):
        if not process.is_running() or process.status() == psutil.STATUS_ZOMBIE:
            return
        time.sleep(0.1)
    raise AssertionError(f"{process} is still there")


def test_it_trains_survives_the_death_of_its_engine_and_leaves_no_process_behind(tmp_path: Path) -> None:
    order = tmp_path / "kill"
    algo = (
        small_config(lr=1e-2)
        .environment(KillsItsEngine, env_config={"order": str(order)})
        .generation(engine="vllm", max_response_tokens=16, engine_options={"max_num_seqs": 8})
        .env_runners(num_env_runners=1)
        .fault_tolerance(env_runner_health_probe_timeout_s=900)
        .build_algo()
    )
    try:
        episodes = record_samples(algo)
        for version in range(2):
            episodes.clear()
            result = algo.train()
            assert {v for e in episodes for v in e.get_extra_model_outputs(WEIGHTS_VERSION)} == {version}
            # The same policy in two implementations, in float32.
            assert result["learners"]["default_policy"]["sampler_learner_gap_max"] <= 1e-3
            assert result["weight_delivery"]["weights_probe_gap_max"] <= 1e-4
            assert result["env_runners"]["num_episodes"] == 16
        success = algo.evaluate()["env_runners"]["success_rate"]
        assert 0 <= success <= 1

        order.touch()
        lost = algo.train()["env_runners"]
        assert lost["rollout_failure_causes"]["EngineDied"] == lost["endings"]["rollout_failure"] == 16
        assert lost["rollout_failures"] == lost["dropped_groups"] == 4

        episodes.clear()
        whole = algo.train()
        assert whole["env_runners"]["num_episodes"] == 16
        assert whole["env_runners"]["rollout_failures"] == 0
        assert {v for e in episodes for v in e.get_extra_model_outputs(WEIGHTS_VERSION)} == {2}
        assert whole["learners"]["default_policy"]["sampler_learner_gap_max"] <= 1e-3

        runner = process_of(algo)
        (engine,) = engine_processes(runner.pid)
        runner.send_signal(signal.SIGKILL)
        wait_until_gone(engine)
    finally:
        algo.stop()
