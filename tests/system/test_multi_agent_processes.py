"""Several agents over several processes: the same tokens and the same weights as in one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray

from rllib_gigpo.columns import GROUP_ID, MEMBER, RESPONSE_IDS
from tests.algorithm_cases import record_samples
from tests.learner_cases import max_difference
from tests.tiny_models import save_tiny_model
from tests.two_agents import two_agent_config

pytestmark = pytest.mark.system


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    ray.init(num_cpus=5, include_dashboard=False, log_to_driver=False, ignore_reinit_error=True)
    yield
    ray.shutdown()


def trained(config: Any) -> tuple[dict[tuple, list], dict[str, dict[str, np.ndarray]]]:
    """Sampled tokens of two iterations, and the weights after them."""
    algo = config.build_algo()
    try:
        episodes = record_samples(algo)
        for _ in range(2):
            algo.train()
        tokens = {
            (e.get_infos(0)[GROUP_ID], e.get_infos(0)[MEMBER], e.agent_id): [
                ids.tolist() for ids in e.get_extra_model_outputs(RESPONSE_IDS)
            ]
            for e in episodes
        }
        return tokens, algo.learner_group.get_weights()
    finally:
        algo.stop()


def test_two_runners_and_two_learners_do_what_one_process_does(tmp_path: Path) -> None:
    # Turns: the modules have different numbers of rows, and of steps in which they are asked.
    config = two_agent_config(save_tiny_model(tmp_path / "model"), kind="turns").language_model(lora_rank=4)
    tokens, weights = trained(config)
    remote = config.copy().env_runners(num_env_runners=2).learners(num_learners=2)
    remote_tokens, remote_weights = trained(remote)
    assert remote_tokens == tokens
    assert remote_weights.keys() == weights.keys() == {"ANN", "BOB"}
    assert all(max_difference(weights[name], remote_weights[name]) <= 1e-6 for name in weights)
