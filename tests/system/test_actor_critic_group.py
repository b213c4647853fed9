"""Two learners with a critic, in processes of their own, score and train like one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import ray
from ray.rllib.core import DEFAULT_MODULE_ID

from rllib_gigpo.algorithms.group_policy.learner_update import update_learners
from rllib_gigpo.algorithms.group_policy.scoring import OLD_LOGP, REFERENCE_LOGP, VALUES, score_rows
from rllib_gigpo.learners.actor_critic_torch_learner import ActorCriticTorchLearner
from tests.learner_cases import build_learner_group, max_difference, random_rows
from tests.tiny_models import save_tiny_model

pytestmark = pytest.mark.system


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def test_two_learners_score_and_train_like_one_and_a_failure_is_raised(tmp_path: Path) -> None:
    directory = save_tiny_model(tmp_path / "model")
    one, two = (
        build_learner_group(
            directory,
            critic=True,
            kl_coeff=0.5,
            micro_batch_tokens=150,
            value_clip=0.5,
            lr=0.02,
            critic_lr=0.01,
            num_learners=number,
        )
        for number in (0, 2)
    )
    try:
        rng = np.random.default_rng(0)
        # The last leaves a learner without rows, and the one before without any in the policy's loss.
        for rows in (random_rows(17), replace(random_rows(9), in_loss=np.zeros(9, bool)), random_rows(1)):
            scored, by_two = (score_rows(group, rows, [OLD_LOGP, REFERENCE_LOGP, VALUES]) for group in (one, two))
            for name in (OLD_LOGP, REFERENCE_LOGP, VALUES):
                # Padding differs between the shards.
                np.testing.assert_allclose(getattr(scored, name), getattr(by_two, name), atol=1e-5)
            targets = np.repeat(rng.normal(3, 1, len(rows)), rows.response_lengths).astype(np.float32)
            scored = scored.with_response_columns(value_targets=targets)
            (expected,) = update_learners(one, scored)
            metrics = update_learners(two, scored)
            for name in ("value_loss", "value_clip_fraction", "critic_gradient_norm"):
                found = [float(result[DEFAULT_MODULE_ID][name].peek()) for result in metrics]
                assert found == pytest.approx([float(expected[DEFAULT_MODULE_ID][name].peek())] * 2, rel=1e-4)
            states = [result.get() for result in two.foreach_learner(lambda learner: learner.module.get_state())]
            for module_id, weights in one._learner.module.get_state().items():
                assert max_difference(states[0][module_id], states[1][module_id]) == 0
                assert max_difference(weights, states[0][module_id]) <= 1e-6
        assert np.abs(scored.values).min() > 0.01, "the critic has learned"

        def break_second(learner: ActorCriticTorchLearner) -> None:
            def compute_values(*args: object) -> np.ndarray:
                raise FloatingPointError("the critic is broken")

            if learner._learner_index == 1:
                learner.compute_values = compute_values

        two.foreach_learner(break_second)
        with pytest.raises(RuntimeError, match=r"(?s)learner 1 failed in its scoring.*the critic is broken"):
            score_rows(two, random_rows(6), [VALUES])
    finally:
        two.shutdown()
