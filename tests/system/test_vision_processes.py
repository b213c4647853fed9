"""Image environments with env runners and learners in processes of their own: pixels travel past the driver."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray

from rllib_gigpo.images import IMAGE
from tests.algorithm_cases import largest_difference, record_samples, small_config, tokens_of, weights_of
from tests.tiny_models import save_tiny_vlm

pytestmark = pytest.mark.system


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_vlm(tmp_path_factory.mktemp("vlm"))


def config_of(directory: Path, *, num_env_runners: int, num_learners: int) -> Any:
    # Plain gradient descent: Adam would make large differences of gradients that differ by rounding.
    training = {"optimizer": "sgd", "lr": 0.1, "num_minibatches": 1, "train_on_zero_signal_groups": True}
    return (
        small_config(**training)
        .environment("EZPoints", env_config={"observation": "image", "max_steps": 2})
        .language_model(model_path=str(directory))
        .generation(max_prompt_tokens=400, max_response_tokens=4)
        .env_runners(num_env_runners=num_env_runners)
        .learners(num_learners=num_learners)
    )


def test_processes_change_nothing_and_images_outlive_the_runners_that_drew_them(directory: Path) -> None:
    alone = config_of(directory, num_env_runners=0, num_learners=0).build_algo()
    sampled_alone = record_samples(alone)
    alone.train()
    expected = weights_of(alone)
    alone.stop()

    algo = config_of(directory, num_env_runners=1, num_learners=2).build_algo()
    try:
        before = weights_of(algo)
        sampled = record_samples(algo)
        algo.train()
        assert tokens_of(sampled) == tokens_of(sampled_alone)
        assert largest_difference(before, expected) > 1e-3
        assert largest_difference(weights_of(algo), expected) < 1e-5

        # 16 trajectories of pictures of 270 kB: what the driver has of them is small, and yet leads to the pixels.
        assert len(pickle.dumps(sampled)) < 270_000
        assert np.asarray(sampled[0].get_observations(0)[IMAGE]).shape == (300, 300, 3)

        episodes = algo._sample(algo._next_plan())
        for runner in list(algo.env_runner_group._worker_manager._actors.values()):
            ray.kill(runner)
        algo._update(algo._assign_credit(episodes))
        assert largest_difference(weights_of(algo), expected) > 1e-4
    finally:
        algo.stop()
