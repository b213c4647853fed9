"""Processes, nodes and memory that go away under a running Algorithm: what is lost is counted, the rest goes on."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import ray
from ray.cluster_utils import Cluster

from rllib_gigpo.env_runners import runner_group
from tests.algorithm_cases import KillsItsProcess, small_config

pytestmark = pytest.mark.system

MB = 2**20


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A node for one actor, with the smallest object store that Ray makes; others are added where they are needed."""
    monkeypatch = pytest.MonkeyPatch()
    # Short, for its sockets. In Ray's usual folder, whatever else starts Ray on this machine would join this cluster.
    folder = tempfile.mkdtemp(prefix="faults")
    monkeypatch.setenv("RAY_TMPDIR", folder)
    head = {"num_cpus": 1, "object_store_memory": 80 * MB, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    ray.init(address=cluster.address, log_to_driver=False)
    yield cluster
    ray.shutdown()
    cluster.shutdown()
    monkeypatch.undo()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("orders")


@pytest.fixture(scope="module")
def second_node(cluster: Cluster) -> Any:
    return cluster.add_node(num_cpus=1, object_store_memory=80 * MB)


@pytest.fixture(scope="module")
def two_runners(cluster: Cluster, second_node: Any, orders: Path) -> Iterator[Any]:
    """A runner on each node."""
    config = (
        small_config(num_minibatches=1)
        .environment(KillsItsProcess, env_config={"order": str(orders / "kill"), "hang": str(orders / "hang")})
        .generation(max_response_tokens=16)
        .env_runners(num_env_runners=2, rollout_stall_timeout_s=12)
    )
    algo = config.build_algo()
    yield algo
    algo.stop()


def runner_pids(algo: Any) -> list[int]:
    return algo.env_runner_group.foreach_env_runner(lambda runner: os.getpid(), local_env_runner=False)


def wait_for(condition: Callable[[], bool], timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def assert_whole(result: dict) -> None:
    rollouts = result["env_runners"]
    assert (rollouts["num_episodes"], rollouts["kept_groups"], rollouts["dropped_groups"]) == (16, 4, 0)
    assert result["learners"]["default_policy"]["sampler_learner_gap_max"] <= 1e-4


def test_all_runners_killed_cost_an_iteration(two_runners: Any) -> None:
    assert_whole(two_runners.train())
    for pid in runner_pids(two_runners):
        os.kill(pid, signal.SIGKILL)
    lost = two_runners.train()["env_runners"]
    assert (lost["planned_groups"], lost["kept_groups"], lost["dropped_groups"]) == (4, 0, 4)
    assert lost["endings"]["rollout_failure"] == lost["failure_kinds"]["infrastructure"] == 16
    assert_whole(two_runners.train())


def test_a_runner_that_hangs_is_given_up_with_the_place_where_it_stood(
    two_runners: Any, orders: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (orders / "hang").touch()
    lost = two_runners.train()["env_runners"]
    assert lost["rollout_failure_causes"]["RolloutStalled"] == 8
    assert (lost["num_episodes"], lost["failure_kinds"]["infrastructure"]) == (8, 8)
    assert "time.sleep(600)" in caplog.text, "what the runner said of itself has come to the driver"
    assert_whole(two_runners.train())


def test_a_full_object_store_is_slower_and_no_more(two_runners: Any) -> None:
    filling = [ray.put(np.ones(10 * MB, np.uint8)) for _ in range(12)]
    assert_whole(two_runners.train())
    assert len(filling) == 12


def test_a_lost_node_takes_its_runner_until_there_is_another(
    cluster: Cluster, second_node: Any, two_runners: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner_group, "_PLACEMENT_S", 3.0)
    pids = runner_pids(two_runners)
    cluster.remove_node(second_node, allow_graceful=False)
    # The processes of a node notice that it is gone; a rollout of a second may be over before.
    wait_for(lambda: not all(map(psutil.pid_exists, pids)))
    lost = two_runners.train()["env_runners"]
    assert (lost["kept_groups"], lost["dropped_groups"]) == (2, 2)
    assert lost["rollout_failure_causes"]["RunnerDied"] == 8
    for _ in range(2):  # nobody waits for ever, nor twice
        result = two_runners.train()
        assert_whole(result)
        assert result["fault_tolerance"]["num_healthy_workers"] == 1
    cluster.add_node(num_cpus=1, object_store_memory=80 * MB)
    for _ in range(60):
        result = two_runners.train()
        assert_whole(result)
        if result["fault_tolerance"]["num_healthy_workers"] == 2:
            break
    else:
        pytest.fail("the runner has not come back, though there is a node for it")


def test_a_learner_that_is_killed_is_one_clear_error(two_runners: Any) -> None:
    two_runners.stop()
    algo = small_config(num_minibatches=1).generation(max_response_tokens=16).learners(num_learners=1).build_algo()
    algo.train()
    (pid,) = [answer.get() for answer in algo.learner_group.foreach_learner(lambda learner: os.getpid())]
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(RuntimeError, match=r"(?s)learner 0 failed in its update .*infrastructure.*(died|dead)"):
        algo.train()
    algo.stop()
