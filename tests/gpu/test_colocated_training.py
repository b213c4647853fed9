"""A learner and a vLLM engine that share one GPU: the engine sleeps while the learner learns."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rllib_gigpo.inference.weights_probe import PROBE_TOLERANCE
from tests.algorithm_cases import largest_difference, small_config, weights_of
from tests.vllm_cases import needs_vllm

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(400), needs_vllm]


def test_it_trains(record_property: Callable[[str, object], None]) -> None:
    algo = (
        small_config()
        .generation(
            engine="vllm",
            engine_sleep_level=1,
            engine_options={"gpu_memory_utilization": 0.3, "enforce_eager": True},
        )
        # The numbers of `rllib plan`.
        .env_runners(num_env_runners=1, num_gpus_per_env_runner=0.51)
        .learners(num_learners=1, num_gpus_per_learner=0.49)
        .build_algo()
    )
    try:
        before = weights_of(algo)
        for _ in range(2):
            result = algo.train()
            assert result["env_runners"]["num_episodes"] == 16
            policy, delivery = result["learners"]["default_policy"], result["weight_delivery"]
            assert policy["sampler_learner_gap_mean"] <= 1e-3
            assert delivery["weights_probe_gap_max"] <= PROBE_TOLERANCE["float32"]
        assert largest_difference(before, weights_of(algo)) > 1e-4
        record_property("sampler_learner_gap_mean", policy["sampler_learner_gap_mean"])
        record_property("sampler_learner_gap_max", policy["sampler_learner_gap_max"])
        record_property("weights_probe_gap_max", delivery["weights_probe_gap_max"])
        record_property("delivery_seconds", delivery["seconds"])
    finally:
        algo.stop()
