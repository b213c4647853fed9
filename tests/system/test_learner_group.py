"""Several learners in processes of their own (gloo) train like one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.learner.learner_group import LearnerGroup

from rllib_gigpo.algorithms.group_policy.learner_update import update_learners
from rllib_gigpo.algorithms.group_policy.weight_delivery import prove_weights, take_weights
from rllib_gigpo.inference.weights_probe import probe_gap
from rllib_gigpo.learners.group_policy_torch_learner import GroupPolicyTorchLearner
from rllib_gigpo.rl_modules.lora import LoraSettings
from rllib_gigpo.rows import TokenRows
from tests.learner_cases import batch_of, build_learner_group, max_difference, random_rows, sharing_rows, weights_of
from tests.tiny_models import save_tiny_model

pytestmark = pytest.mark.system

NUM_LEARNERS = 2


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def _update(group: LearnerGroup, shards: list[TokenRows]) -> list[dict[str, float]]:
    results = group.update(batch_refs=[ray.put(batch_of(shard)) for shard in shards], timesteps={})
    return [{name: float(stats.peek()) for name, stats in result[DEFAULT_MODULE_ID].items()} for result in results]


def _states(group: LearnerGroup) -> list[dict[str, np.ndarray]]:
    """The weights of every learner."""
    results = group.foreach_learner(lambda learner: learner.module.get_state())
    return [result.get()[DEFAULT_MODULE_ID] for result in results]


@pytest.mark.parametrize("make_rows", [random_rows, sharing_rows])
def test_two_learners_with_uneven_and_empty_shards_give_the_weights_of_one(
    tmp_path: Path, make_rows: Callable[[int], TokenRows]
) -> None:
    directory = save_tiny_model(tmp_path / "model")
    rows = replace(make_rows(30), in_loss=np.arange(30) % 5 != 0)
    nothing_in_loss = replace(rows, in_loss=np.zeros(30, bool))
    everything, no_rows = np.arange(30), np.arange(0)
    # Each case is one more update of the same learners: rows of learner 0, rows of learner 1.
    cases = [
        (rows, everything[:22], everything[22:]),
        (rows, everything, no_rows),
        (rows, no_rows, everything),
        (nothing_in_loss, everything, no_rows),
        # Learner 0 has rows, but none of them is in the loss.
        (rows, everything[::5], np.setdiff1d(everything, everything[::5])),
    ]
    one = build_learner_group(directory, micro_batch_tokens=150)
    two = build_learner_group(directory, micro_batch_tokens=150, num_learners=NUM_LEARNERS)
    try:
        before = weights_of(one)
        for batch, first, second in cases:
            (expected,) = _update(one, [batch])
            metrics = _update(two, [batch.take(first), batch.take(second)])
            states = _states(two)
            assert max_difference(states[0], states[1]) == 0
            assert max_difference(weights_of(one), states[0]) <= 1e-6
            for name in ("policy_loss", "gradient_norm", "entropy", "rows_in_loss_share"):
                if name in expected and batch is rows:
                    assert [m[name] for m in metrics] == pytest.approx([expected[name]] * NUM_LEARNERS, rel=1e-5)
            for name in ("response_tokens", "skipped_optimizer_steps"):
                assert sum(m[name] for m in metrics) == expected[name]
        assert max_difference(before, weights_of(one)) > 1e-3
        for batch in (rows, rows.take(np.arange(1))):
            update_learners(one, batch)
            assert len(update_learners(two, batch)) == NUM_LEARNERS
            states = _states(two)
            assert max_difference(states[0], states[1]) == 0
            assert max_difference(weights_of(one), states[0]) <= 1e-6
    finally:
        two.shutdown()


def test_one_learner_in_a_process_of_its_own_gives_the_weights_of_the_local_one(tmp_path: Path) -> None:
    directory = save_tiny_model(tmp_path / "model")
    rows = replace(random_rows(30), in_loss=np.arange(30) % 5 != 0)
    local = build_learner_group(directory, micro_batch_tokens=150)
    remote = build_learner_group(directory, micro_batch_tokens=150, num_learners=1)
    try:
        before = weights_of(local)
        update_learners(local, rows)
        update_learners(remote, rows)
        (state,) = _states(remote)
        assert max_difference(before, state) > 1e-3
        assert max_difference(weights_of(local), state) <= 1e-6
    finally:
        remote.shutdown()


def test_two_learners_with_an_adapter_and_a_reference_give_the_weights_of_one(tmp_path: Path) -> None:
    directory = save_tiny_model(tmp_path / "model")
    rows = replace(random_rows(20), in_loss=np.arange(20) % 5 != 0)
    everything, no_rows = np.arange(20), np.arange(0)
    settings: dict[str, Any] = {"lora": LoraSettings(rank=4), "kl_coeff": 0.5, "micro_batch_tokens": 150}
    one = build_learner_group(directory, **settings)
    two = build_learner_group(directory, num_learners=NUM_LEARNERS, **settings)
    try:
        before = weights_of(one)
        # Scoring the reference switches the adapter off and on: what DDP hangs on its weights must survive that.
        for first, second in (
            (everything[:13], everything[13:]),
            (everything, no_rows),
            (everything[::2], everything[1::2]),
        ):
            (expected,) = _update(one, [rows])
            metrics = _update(two, [rows.take(first), rows.take(second)])
            states = _states(two)
            assert max_difference(states[0], states[1]) == 0
            assert max_difference(weights_of(one), states[0]) <= 1e-6
            for name in ("policy_loss", "kl_to_reference", "total_loss"):
                assert [m[name] for m in metrics] == pytest.approx([expected[name]] * NUM_LEARNERS, rel=1e-4, abs=1e-7)
        assert expected["kl_to_reference"] > 1e-4
        assert max_difference(before, weights_of(one)) > 1e-3
    finally:
        two.shutdown()


def test_two_learners_take_equal_numbers_of_steps_with_fewer_rows_than_mini_batches(tmp_path: Path) -> None:
    directory = save_tiny_model(tmp_path / "model")
    rows = random_rows(7)
    group = build_learner_group(
        directory, num_learners=NUM_LEARNERS, num_minibatches=4, num_epochs=2, optimizer="adamw", lr=1e-3, grad_clip=1.0
    )
    try:
        metrics = _update(group, [rows.take(np.arange(6)), rows.take(np.arange(6, 7))])
        states = [result.get() for result in group.foreach_learner(lambda learner: learner.module.get_state())]
        assert max_difference(states[0][DEFAULT_MODULE_ID], states[1][DEFAULT_MODULE_ID]) == 0
        assert sum(m["skipped_optimizer_steps"] for m in metrics) == 0
        group.save_to_path(tmp_path / "checkpoint")
        group.restore_from_path(tmp_path / "checkpoint")
        restored = [result.get() for result in group.foreach_learner(lambda learner: learner.module.get_state())]
        for state in restored:
            assert max_difference(states[0][DEFAULT_MODULE_ID], state[DEFAULT_MODULE_ID]) == 0
    finally:
        group.shutdown()


def test_three_learners_with_two_rows_give_the_weights_of_one_and_a_failure_of_one_is_raised_at_once(
    tmp_path: Path,
) -> None:
    directory = save_tiny_model(tmp_path / "model")
    one = build_learner_group(directory)
    three = build_learner_group(directory, num_learners=3)
    try:
        before, proof_before = weights_of(one), prove_weights(one)
        # 2 rows leave a learner without any, 31 do not divide by 3.
        for rows in (random_rows(2), random_rows(31, seed=1)):
            update_learners(one, rows)
            update_learners(three, rows)
            states = _states(three)
            assert max_difference(states[0], states[1]) == max_difference(states[0], states[2]) == 0
            assert max_difference(weights_of(one), states[0]) <= 1e-6
        assert max_difference(before, weights_of(one)) > 1e-3

        expected, parcel = take_weights(one, by_reference=False), take_weights(three, by_reference=True)
        assert parcel.version == expected.version == 2
        assert parcel.num_bytes == expected.num_bytes > 0
        assert max_difference(expected.weights, ray.get(parcel.weights)) <= 1e-6
        assert probe_gap(prove_weights(one), prove_weights(three)) <= 1e-5
        assert probe_gap(proof_before, prove_weights(three)) > 1e-3

        def break_second(learner: GroupPolicyTorchLearner) -> None:
            def update_module(*args: object) -> float:
                raise FloatingPointError("the batch is broken")

            if learner._learner_index == 1:
                learner._update_module = update_module

        three.foreach_learner(break_second)
        start = time.monotonic()
        # The others wait in a collective operation, whose own timeout is half an hour.
        with pytest.raises(RuntimeError, match=r"(?s)learner 1 failed in its update.*FloatingPointError: the batch is"):
            update_learners(three, random_rows(6))
        assert time.monotonic() - start < 20
    finally:
        three.shutdown()
