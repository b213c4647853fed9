"""Every registered algorithm trains on a real environment."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rllib_gigpo import registry
from rllib_gigpo.algorithms.gagpo import GAGPOConfig
from rllib_gigpo.algorithms.reinforce import REINFORCEPlusPlusConfig
from rllib_gigpo.env_adapters import embedded_model_path

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("ray_cluster")]


def train_once(config, **training):
    algo = (
        config.environment("EZPoints")
        .language_model(model_path=str(embedded_model_path("EZPoints")))
        .generation(max_prompt_tokens=160, max_response_tokens=32)
        .training(**{"group_size": 8, "groups_per_iteration": 4, "lr": 1e-3, "num_minibatches": 2, **training})
        .env_runners(num_env_runners=0)
        .learners(num_learners=0)
        .debugging(seed=0)
        .build_algo()
    )
    before = algo.learner_group.get_weights()["default_policy"]
    result = algo.train()
    after = algo.learner_group.get_weights()["default_policy"]
    algo.stop()
    assert math.isfinite(result["learners"]["default_policy"]["policy_loss"])
    assert all(np.isfinite(weights).all() for weights in after.values())
    assert any(not np.array_equal(before[name], after[name]) for name in before)
    return result


@pytest.mark.parametrize("name", registry.algorithm_names())
def test_an_iteration_trains_and_its_loss_is_finite(name):
    algorithm = registry.algorithm_class(name)
    result = train_once(algorithm.get_default_config())
    assert result["env_runners"]["num_episodes"] == 8 * result["rollout_groups"].get("sampled_groups", 4)
    assert result["rollout_groups"]["num_groups"] == 4
    # Those two compare over the batch, and of most rows there is no return yet to tell them apart.
    assert result["rollout_groups"]["advantage_iqr"] > (-1 if name in ("PPO", "REINFORCEPlusPlus") else 0)


def test_gagpo_merges_similar_states():
    result = train_once(GAGPOConfig(), similarity_threshold=0.9, bootstrap_truncated=True)
    assert 0 <= result["rollout_groups"]["advantage_above_one_share"] <= 1


def test_reinforce_plus_plus_trains_on_groups_of_one():
    result = train_once(REINFORCEPlusPlusConfig(), group_size=1, groups_per_iteration=24)
    assert result["rollout_groups"]["num_groups"] == 24
    assert result["env_runners"]["dropped_groups"] == 0
