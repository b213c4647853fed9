"""Environment workers under a whole Algorithm: killed in the middle of a group, and never left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray

from tests.algorithm_cases import small_config
from tests.environment_cases import ROOT
from tests.pool_cases import Trouble, all_end, all_there, processes, running
from tests.tiny_models import save_tiny_model
from tests.two_agents import two_agent_config

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def test_a_killed_worker_loses_its_trajectories_and_a_killed_or_stopped_runner_leaves_no_worker(
    cluster: None, tmp_path: Path
) -> None:
    algo = (
        small_config()
        .environment(Trouble, env_config={"folder": str(tmp_path)})
        .generation(max_response_tokens=8)
        .env_runners(num_env_runners=1, env_workers=2)
        .build_algo()
    )
    (tmp_path / "kill").touch()
    lost = algo.train()["env_runners"]
    # 16 trajectories at once in 2 workers.
    assert lost["endings"]["env_failure"] == lost["env_failure_causes"]["WorkerDied"] == 8
    assert lost["env_worker_restarts"]["died"] == 1
    assert (lost["num_episodes"], lost["dropped_groups"]) == (8, 0)
    whole = algo.train()["env_runners"]
    assert (whole["num_episodes"], whole["endings"]["env_failure"]) == (16, 0)

    workers = running(processes(tmp_path))
    assert len(workers) == 2
    runner = algo.env_runner_group.foreach_env_runner(lambda runner: os.getpid(), local_env_runner=False)[0]
    os.kill(runner, signal.SIGKILL)
    assert all_end(workers)
    algo.train()  # loses the runner
    assert algo.train()["env_runners"]["num_episodes"] == 16
    workers = running(processes(tmp_path))
    assert len(workers) == 2
    algo.stop()
    assert all_end(workers)


@pytest.mark.parametrize("ended_by", [signal.SIGINT, signal.SIGKILL])
def test_no_worker_outlives_a_script_that_is_ended_while_an_environment_hangs(
    tmp_path: Path, ended_by: signal.Signals
) -> None:
    script = subprocess.Popen([sys.executable, "-m", "tests.system.hanging_environment", str(tmp_path)], cwd=ROOT)
    # The worker that hangs, and the process that its environment has started.
    assert all_there(tmp_path, 2, within_s=60)
    workers = running(processes(tmp_path))
    assert len(workers) == 2
    script.send_signal(ended_by)
    assert script.wait(timeout=60) != 0
    assert all_end(workers)


def test_several_agents_play_the_same_in_workers(cluster: None, tmp_path: Path) -> None:
    results = []
    for env_workers in (0, 2):
        model = save_tiny_model(tmp_path / str(env_workers))
        algo = two_agent_config(model, kind="turns").env_runners(env_workers=env_workers).build_algo()
        metrics = algo.train()["env_runners"]
        algo.stop()
        results.append({name: metrics[name] for name in ("agents", "endings", "episode_return_mean", "num_episodes")})
    assert results[0] == results[1]
    assert results[0]["num_episodes"] == 8
