"""Image environments with env runners and learners in processes of their own: pixels travel past the driver."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray

from rllib_gigpo.images import IMAGE, ImageStore, adopt_images, stored_observation
from rllib_gigpo.rl_modules.causal_lm_rl_module import causal_lm_spec
from tests.algorithm_cases import largest_difference, record_samples, small_config, tokens_of, weights_of
from tests.learner_cases import batch_of, build_learner_group, max_difference
from tests.learner_cases import weights_of as weights_of_learner
from tests.tiny_models import save_tiny_vlm
from tests.vision_cases import image_rows, random_image

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


@ray.remote(num_cpus=0)
class Draws:
    """An env runner, as far as images go."""

    def observations(self) -> list[Any]:
        store = ImageStore()
        observations = [stored_observation({"text": "", "image": random_image(300, 300)}, store)]
        store.seal()
        return observations


def test_adopted_images_outlive_the_process_that_drew_them() -> None:
    runner = Draws.remote()
    adopted, left = ray.get([runner.observations.remote() for _ in range(2)])
    adopt_images(adopted)
    ray.kill(runner)
    # Until Ray has noticed the death, what it leaves behind can still be read.
    deadline = time.monotonic() + 60
    with pytest.raises(ray.exceptions.ObjectLostError):
        while time.monotonic() < deadline:
            np.asarray(pickle.loads(pickle.dumps(left))[0][IMAGE])
            time.sleep(0.2)
    np.testing.assert_array_equal(np.asarray(adopted[0][IMAGE]), random_image(300, 300))


@pytest.mark.parametrize("sharding", [None, "fsdp"])
def test_two_learners_of_which_one_sees_no_image_give_the_weights_of_one(directory: Path, sharding: str | None) -> None:
    rows = image_rows(causal_lm_spec(str(directory)).build())
    settings: dict[str, Any] = {"micro_batch_tokens": 160, "kl_coeff": 0.5, "lr": 0.01}
    one = build_learner_group(directory, **settings)
    two = build_learner_group(directory, num_learners=2, sharding=sharding, **settings)
    try:
        before = weights_of_learner(one)
        for shards in (([0, 1, 2, 3], [4]), ([], [0, 1, 2, 3, 4])):
            one.update(batch=batch_of(rows))
            two.update(batch_refs=[ray.put(batch_of(rows.take(np.array(s, np.int64)))) for s in shards], timesteps={})
            assert max_difference(weights_of_learner(one), weights_of_learner(two)) <= 1e-5
        assert max_difference(before, weights_of_learner(one)) > 1e-2
    finally:
        two.shutdown()


def test_processes_change_nothing_and_pixels_travel_past_the_driver(directory: Path) -> None:
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
    finally:
        algo.stop()
