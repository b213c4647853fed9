"""Learners that hold parts of the model (FSDP2, gloo) train like one that holds all of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.learner.learner_group import LearnerGroup

from rllib_gigpo.algorithms.group_policy.learner_update import update_learners
from rllib_gigpo.algorithms.group_policy.scoring import OLD_LOGP, score_rows
from rllib_gigpo.algorithms.group_policy.weight_delivery import prove_weights, take_weights
from rllib_gigpo.algorithms.grpo import GRPO, GRPOConfig
from rllib_gigpo.env_adapters import embedded_model_path
from rllib_gigpo.inference.weights_probe import probe_gap
from rllib_gigpo.learners.sharded_learner_group import ShardedLearnerGroup
from rllib_gigpo.rl_modules.lora import LoraSettings
from rllib_gigpo.rl_modules.model_directory import load_causal_lm
from rllib_gigpo.rl_modules.weights import get_weights
from rllib_gigpo.rows import TokenRows
from tests.learner_cases import batch_of, build_learner_group, max_difference, random_rows, sharing_rows, weights_of
from tests.tiny_models import save_tiny_model

pytestmark = pytest.mark.system


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@contextmanager
def _sharded(directory: Path, **settings: Any) -> Iterator[ShardedLearnerGroup]:
    group = build_learner_group(directory, num_learners=2, sharding="fsdp", **settings)
    assert isinstance(group, ShardedLearnerGroup)
    try:
        yield group
    finally:
        group.shutdown()


def _update(group: LearnerGroup, shards: list[TokenRows]) -> list[dict[str, float]]:
    results = group.update(batch_refs=[ray.put(batch_of(shard)) for shard in shards], timesteps={})
    return [{name: float(stats.peek()) for name, stats in result[DEFAULT_MODULE_ID].items()} for result in results]


@pytest.mark.parametrize("make_rows", [random_rows, sharing_rows])
def test_sharded_learners_with_uneven_and_empty_shards_give_the_weights_of_one(
    tmp_path: Path, make_rows: Callable[[int], TokenRows]
) -> None:
    directory = save_tiny_model(tmp_path / "model")
    rows = replace(make_rows(30), in_loss=np.arange(30) % 5 != 0)
    everything, no_rows = np.arange(30), np.arange(0)
    # Plain gradient descent, to which a KL to the reference and clipping of gradients are added.
    settings: dict[str, Any] = {"micro_batch_tokens": 150, "kl_coeff": 0.5, "grad_clip": 0.1}
    one = build_learner_group(directory, **settings)
    before = weights_of(one)
    with _sharded(directory, **settings) as two:
        share = two.foreach_learner(_own_share_of_weights)
        # Each has about half; embeddings and layers of odd sizes are padded.
        assert [result.get() for result in share] == pytest.approx([0.5, 0.5], abs=0.02)
        for first, second in (
            (everything[:22], everything[22:]),
            (everything, no_rows),
            (everything[::5], np.setdiff1d(everything, everything[::5])),
        ):
            (expected,) = _update(one, [rows])
            metrics = _update(two, [rows.take(first), rows.take(second)])
            for name in ("policy_loss", "gradient_norm", "kl_to_reference"):
                assert [m[name] for m in metrics] == pytest.approx([expected[name]] * 2, rel=1e-4, abs=1e-7)
            assert max_difference(weights_of(one), weights_of(two)) <= 1e-6
        assert max_difference(before, weights_of(one)) > 1e-3

        # The scoring stage, and the proof of what goes to the engines.
        scored = score_rows(two, rows, [OLD_LOGP]).old_logp
        expected_logp = score_rows(one, rows, [OLD_LOGP]).old_logp
        assert scored is not None and expected_logp is not None
        np.testing.assert_allclose(scored, expected_logp, atol=1e-5)
        parcel, expected_parcel = take_weights(two, by_reference=False), take_weights(one, by_reference=False)
        assert probe_gap(prove_weights(two), prove_weights(one)) <= 1e-5
        assert max_difference(parcel.weights, expected_parcel.weights) <= 1e-6
        # Nobody holds the whole model once it has been given away.
        assert not any(result.get() for result in two.foreach_learner(_holds_gathered_weights))


def test_checkpoint_of_sharded_learners_goes_on_in_one_and_back(tmp_path: Path) -> None:
    directory = save_tiny_model(tmp_path / "model")
    rows = random_rows(20)
    settings: dict[str, Any] = {"optimizer": "adamw", "lr": 1e-3, "num_minibatches": 2, "num_epochs": 2}
    one = build_learner_group(directory, **settings)
    with _sharded(directory, **settings) as two:
        update_learners(two, rows)
        two.save_to_path(tmp_path / "sharded")
        one.restore_from_path(tmp_path / "sharded")
        assert max_difference(weights_of(one), weights_of(two)) == 0
        saved = next((tmp_path / "sharded").rglob("huggingface"))
        assert max_difference(get_weights(load_causal_lm(saved)), weights_of(one)) == 0

        # Adam's moments have come along: with new ones the next steps would be others.
        one.save_to_path(tmp_path / "whole")
        for group in (one, two):
            update_learners(group, rows)
        after = weights_of(two)
        # Mini-batches are drawn per learner, so one and two take different steps of about the same size.
        assert max_difference(weights_of(one), after) < 0.01
        two.restore_from_path(tmp_path / "whole")
        update_learners(two, rows)
        assert max_difference(weights_of(two), after) <= 1e-6

        # A single learner has no whole state to give. Last, for RLlib asks no learner again that has raised.
        (refused,) = two.foreach_learner(lambda learner: learner.module.get_state(), remote_actor_ids=[0])
        assert not refused.ok
        assert "spread over all learners" in str(refused.get())


def test_sharded_adapter_in_mixed_precision_moves_as_the_plain_one_does(tmp_path: Path) -> None:
    directory = save_tiny_model(tmp_path / "model")
    rows = random_rows(20)
    settings: dict[str, Any] = {"lora": LoraSettings(rank=4), "kl_coeff": 0.5}
    one = build_learner_group(directory, **settings)
    before = weights_of(one)
    with _sharded(directory, **settings, mixed_precision=True, gradient_checkpointing=True) as two:
        _update(one, [rows])
        _update(two, [rows.take(np.arange(13)), rows.take(np.arange(13, 20))])
        after, expected = weights_of(two), weights_of(one)
        assert after.keys() == expected.keys()
        assert {array.dtype for array in after.values()} == {np.dtype(np.float32)}
        # bfloat16 has 8 bits of mantissa: activations and gradients are off by a few percent.
        moved = np.concatenate([(expected[name] - before[name]).ravel() for name in sorted(before)])
        error = np.concatenate([(after[name] - expected[name]).ravel() for name in sorted(before)])
        assert 0 < np.linalg.norm(error) < 0.1 * np.linalg.norm(moved)


def test_algorithm_trains_with_sharded_learners_and_goes_on_in_its_own_process(tmp_path: Path) -> None:
    config = (
        GRPOConfig()
        .environment("EZPoints")
        .language_model(model_path=str(embedded_model_path("EZPoints")))
        .generation(max_prompt_tokens=160, max_response_tokens=32)
        .training(group_size=4, groups_per_iteration=2, num_minibatches=2, kl_coeff=0.01)
        .env_runners(num_env_runners=0)
        .learners(num_learners=2, sharding="fsdp")
        .evaluation(evaluation_interval=0)
        .debugging(seed=0)
    )
    algo = config.build_algo()
    try:
        result = algo.train()
        # What the engine serves was proved against a forward pass of the sharded model.
        assert result["weight_delivery"]["weights_probe_gap_max"] <= 1e-4
        weights = weights_of(algo.learner_group)
        algo.save_to_path(str(tmp_path / "checkpoint"))
    finally:
        algo.stop()
    whole = config.copy(copy_frozen=False).learners(num_learners=0, sharding=None)
    algo = GRPO.from_checkpoint(str(tmp_path / "checkpoint"), config=whole)
    try:
        assert max_difference(weights_of(algo.learner_group), weights) == 0
        assert algo.train()["training_iteration"] == 2
    finally:
        algo.stop()


def _own_share_of_weights(learner: Any) -> float:
    """Of the numbers of all weights, those that the learner holds."""
    weights = list(learner.module[DEFAULT_MODULE_ID].lm.parameters())
    return sum(weight.to_local().numel() for weight in weights) / sum(weight.numel() for weight in weights)


def _holds_gathered_weights(learner: Any) -> bool:
    return learner.module[DEFAULT_MODULE_ID]._gathered is not None or bool(learner._gathered_probes)
