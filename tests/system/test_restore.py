"""A run that was killed, or that moves to other processes, goes on as if nothing had happened."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import ray

from rllib_gigpo.algorithms.gigpo.gigpo import GiGPO
from tests.algorithm_cases import (
    largest_difference,
    record_samples,
    restorable_config,
    small_config,
    tasks_of,
    tokens_of,
    weights_of,
)

pytestmark = pytest.mark.system


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def test_a_run_killed_in_its_third_iteration_ends_like_one_that_was_not(tmp_path: Path) -> None:
    address = ray.get_runtime_context().gcs_address
    killed = subprocess.Popen([sys.executable, "-m", "tests.system.killed_training", address, str(tmp_path)])

    whole = restorable_config().build_algo()
    episodes = record_samples(whole)
    results = [whole.train() for _ in range(6)]
    expected, expected_tasks = weights_of(whole), tasks_of(episodes)
    whole.stop()

    assert killed.wait(timeout=120) == -signal.SIGKILL
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint-1", "checkpoint-2", "tasks.json"]
    restored = GiGPO.from_checkpoint(tmp_path / "checkpoint-2")
    episodes = record_samples(restored)
    continued = [restored.train() for _ in range(4)]
    assert json.loads((tmp_path / "tasks.json").read_text()) + tasks_of(episodes) == expected_tasks
    assert largest_difference(expected, weights_of(restored)) <= 1e-6
    for key in ("training_iteration", "num_env_steps_sampled_lifetime"):
        assert continued[-1][key] == results[-1][key]
    rates = [r["learners"]["default_policy"]["default_optimizer_learning_rate"] for r in (results[-1], continued[-1])]
    assert rates[0] == rates[1] == pytest.approx(1e-4)
    restored.stop()


def test_a_bfloat16_run_moves_to_a_runner_and_a_learner_of_their_own(tmp_path: Path) -> None:
    config = small_config(num_minibatches=1).language_model(model_dtype="bfloat16").generation(max_response_tokens=16)
    one = config.copy(copy_frozen=False).build_algo()
    one.train()
    path = one.save_to_path(tmp_path / "checkpoint")
    episodes = record_samples(one)
    one.train()
    expected, expected_tokens = weights_of(one), tokens_of(episodes)
    one.stop()
    assert {array.dtype for array in expected.values()} == {np.dtype(np.uint16)}

    spread = config.env_runners(num_env_runners=1).learners(num_learners=1).build_algo()
    spread.train()
    spread.train()
    spread.restore_from_path(path)
    episodes = record_samples(spread)
    result = spread.train()
    assert tokens_of(episodes) == expected_tokens
    assert result["training_iteration"] == 2
    assert result["weight_delivery"]["weights_probe_gap_max"] <= 0.1
    # The same operations in another process: not one bit differs.
    assert all(np.array_equal(expected[name], array) for name, array in weights_of(spread).items())

    # Saved by an actor, taken over by one process.
    path = spread.save_to_path(tmp_path / "by an actor")
    saved = weights_of(spread)
    spread.stop()
    back = GiGPO.from_checkpoint(path, config=config.env_runners(num_env_runners=0).learners(num_learners=0))
    assert all(np.array_equal(saved[name], array) for name, array in weights_of(back).items())
    assert back.env_runner.engine.weights_version == 2
    assert back._next_plan() == one._next_plan()
    back.stop()
