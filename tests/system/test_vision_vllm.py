"""GiGPO on image EZPoints with the `vllm` engine in an env runner of its own: pictures to the engine, weights after."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import ray

from rllib_gigpo.columns import WEIGHTS_VERSION
from tests.algorithm_cases import record_samples, small_config, weights_of
from tests.tiny_models import save_tiny_vlm
from tests.vllm_cases import needs_vllm

pytestmark = [pytest.mark.system, pytest.mark.timeout(1800), needs_vllm]


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def test_iterations_on_pictures_train_the_tower_that_the_engine_samples_with(tmp_path: Path) -> None:
    algo = (
        small_config(lr=1e-2, train_on_zero_signal_groups=True)
        .environment("EZPoints", env_config={"observation": "image", "max_steps": 2})
        .language_model(model_path=str(save_tiny_vlm(tmp_path)))
        .generation(engine="vllm", max_prompt_tokens=400, max_response_tokens=4)
        .evaluation(evaluation_duration=2)
        .env_runners(num_env_runners=1)
        .fault_tolerance(env_runner_health_probe_timeout_s=900)
        .build_algo()
    )
    try:
        episodes = record_samples(algo)
        before = weights_of(algo)
        for version in range(2):
            episodes.clear()
            result = algo.train()
            assert {v for e in episodes for v in e.get_extra_model_outputs(WEIGHTS_VERSION)} == {version}
            # The same policy in two implementations, in float32; the second time after an update of the tower.
            assert result["learners"]["default_policy"]["sampler_learner_gap_max"] <= 1e-3
            assert result["weight_delivery"]["weights_probe_gap_max"] <= 1e-4
            assert result["env_runners"]["num_episodes"] == 16
            after = weights_of(algo)
            changed = {name for name in before if np.abs(before[name] - after[name]).max() > 1e-3}
            assert any(".visual." in name for name in changed) and any("language_model" in name for name in changed)
            before = after
        assert algo.evaluate()["env_runners"]["panel_size"] == 2
    finally:
        algo.stop()
