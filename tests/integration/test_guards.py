"""Numbers that are not finite stay out of weights and optimizers, and the guards' findings are in the results."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from ray.rllib.core import DEFAULT_MODULE_ID

from rllib_gigpo.algorithms.group_policy.guards import ADVICE, GuardStop
from rllib_gigpo.algorithms.grpo.grpo import GRPO, GRPOConfig
from rllib_gigpo.learners.update_metrics import MiniBatchMetrics
from rllib_gigpo.rows import TokenRows
from tests.algorithm_cases import largest_difference, small_config
from tests.algorithm_cases import weights_of as weights_of_algo
from tests.learner_cases import batch_of, build_learner_group, max_difference, random_rows, weights_of
from tests.tiny_models import save_tiny_model

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("ray_cluster")]


@pytest.fixture(scope="module")
def model_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("model"))


def optimizer_state(group: Any) -> list[torch.Tensor]:
    return [
        buffer.clone()
        for optimizer in group._learner._named_optimizers.values()
        for state in optimizer.state.values()
        for buffer in state.values()
    ]


def broken(rows: TokenRows, value: float) -> TokenRows:
    """The rows with an advantage that is not finite."""
    advantages = rows.advantages.copy()
    advantages[1] = value
    return replace(rows, advantages=advantages)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_step_that_is_not_finite_leaves_weights_and_optimizer_as_they_are(
    model_directory: Path, value: float
) -> None:
    group = build_learner_group(model_directory, optimizer="adamw", lr=1e-2, micro_batch_tokens=60)

    def update(rows: TokenRows) -> dict[str, float]:
        (result,) = group.update(batch=batch_of(rows), timesteps={})
        return {name: float(stats.peek()) for name, stats in result[DEFAULT_MODULE_ID].items()}

    update(random_rows(6))
    weights, moments = weights_of(group), optimizer_state(group)
    assert moments
    for in_a_row in (1, 2):
        metrics = update(broken(random_rows(6), value))
        assert metrics["non_finite_gradients"] == metrics["skipped_optimizer_steps"] == 1
        assert metrics["non_finite_steps_in_a_row"] == in_a_row
    assert max_difference(weights, weights_of(group)) == 0
    assert all(torch.equal(a, b) for a, b in zip(moments, optimizer_state(group), strict=True))
    metrics = update(random_rows(6))
    assert metrics["non_finite_steps_in_a_row"] == metrics["skipped_optimizer_steps"] == 0
    assert np.isfinite([metrics["policy_loss"], metrics["entropy"], metrics["gradient_norm"]]).all()
    assert max_difference(weights, weights_of(group)) > 1e-4


def test_one_broken_mini_batch_of_two_leaves_the_metrics_of_the_other(model_directory: Path) -> None:
    group = build_learner_group(model_directory, num_minibatches=2)
    (result,) = group.update(batch=batch_of(broken(random_rows(8), np.nan)), timesteps={})
    metrics = {name: float(stats.peek()) for name, stats in result[DEFAULT_MODULE_ID].items()}
    assert metrics["skipped_optimizer_steps"] == metrics["non_finite_gradients"] == 1
    assert metrics["non_finite_steps_in_a_row"] == 1
    assert np.isfinite([metrics["policy_loss"], metrics["sampler_learner_gap_mean"], metrics["gradient_norm"]]).all()


def test_a_loss_that_is_infinite_takes_no_step_though_its_gradient_is_finite(
    model_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = build_learner_group(model_directory)
    add = MiniBatchMetrics.add_micro_batch
    monkeypatch.setattr(
        MiniBatchMetrics,
        "add_micro_batch",
        lambda self, loss, *, total, **kw: add(self, loss, total=total + torch.inf, **kw),
    )
    before = weights_of(group)
    (result,) = group.update(batch=batch_of(random_rows(6)), timesteps={})
    assert result[DEFAULT_MODULE_ID]["non_finite_gradients"].peek() == 1
    assert max_difference(before, weights_of(group)) == 0


class BreaksRows(GRPO):
    """GRPO whose advantages are NaN in the iterations from the second on."""

    def with_advantages(self, step_rows: Any, token_rows: TokenRows, advantages: np.ndarray) -> TokenRows:
        rows = super().with_advantages(step_rows, token_rows, advantages)
        if self.iteration == 0:
            return rows
        return replace(rows, advantages=np.full_like(rows.advantages, np.nan), in_loss=np.ones(len(rows), bool))


def breaking_config(**guards: Any) -> Any:
    config = small_config(GRPOConfig, group_size=2, groups_per_iteration=2, train_on_zero_signal_groups=True)
    config.algo_class = BreaksRows
    return config.generation(max_response_tokens=16).guards(**guards)


def test_a_run_goes_on_over_broken_updates_until_there_are_too_many_in_a_row() -> None:
    algo = breaking_config(max_non_finite_steps=5).build_algo()
    result = algo.train()
    assert result["guards"] == dict.fromkeys(ADVICE, 0.0)
    weights = weights_of_algo(algo)
    for iteration in (1, 2):
        result = algo.train()
        learner = result["learners"]["default_policy"]
        assert learner["non_finite_gradients"] == 2
        assert learner["non_finite_steps_in_a_row"] == 2 * iteration
        assert result["guards"]["non_finite_steps"] == 0
    with pytest.raises(GuardStop, match=r"6 optimizer steps of default_policy in a row .*max_non_finite_steps=5"):
        algo.train()
    assert largest_difference(weights, weights_of_algo(algo)) == 0
    algo.stop()


def test_what_guards_find_is_in_the_results_and_may_end_the_run(tmp_path: Path) -> None:
    config = small_config(GRPOConfig, group_size=2, groups_per_iteration=2, train_on_zero_signal_groups=True)
    config.generation(max_response_tokens=16).guards(min_entropy=1e6, stop_on_guards={"kl_runaway"})
    algo = config.build_algo()
    counts = [algo.train()["guards"]["entropy_collapse"] for _ in range(4)]
    assert counts == [0, 0, 1, 2]
    path = algo.save_to_path(tmp_path / "checkpoint")
    algo.restore_from_path(path)
    assert algo.train()["guards"]["entropy_collapse"] == 3
    algo.stop()

    algo = config.copy(copy_frozen=False).guards(stop_on_guards={"entropy_collapse"}).build_algo()
    with pytest.raises(GuardStop, match="guard entropy_collapse ends the run: default_policy samples with an entropy"):
        for _ in range(3):
            algo.train()
    assert algo.iteration == 2
    algo.stop()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_non_finite_steps": 0}, r"max_non_finite_steps=0 must be an integer of at least 1, or None"),
        ({"min_entropy": -1}, r"min_entropy=-1 must be "),
        ({"max_length_growth": 0.5}, r"max_length_growth=0.5 must be greater than 1, or None"),
        ({"min_valid_action_ratio": 1.5}, r"min_valid_action_ratio=1.5 must be less than 1"),
        ({"max_kl": "high"}, r"max_kl='high' must be a finite number, or None"),
        ({"stop_on_guards": ["kl_runway"]}, r"there is no guard 'kl_runway'; choose from .*'kl_runaway'"),
        ({"stop_on_guards": "kl_runaway"}, r"stop_on_guards='kl_runaway' must be a list of names"),
        (
            {"stop_on_guards": ["kl_runaway", 3]},
            r"stop_on_guards=\[3, 'kl_runaway'\]: there is no guard 3; choose from",
        ),
        ({"stop_on_guards": [{}]}, r"there is no guard {}; choose from"),
        ({"stop_on_guards": ["kl_runaway"], "max_kl": None}, r"max_kl=None switches the guard 'kl_runaway' off; set"),
    ],
)
def test_a_setting_that_cannot_work_is_named(settings: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        small_config().guards(**settings).validate()


def test_guards_can_be_set_in_a_file() -> None:
    config = small_config().update_from_dict({"stop_on_guards": ["kl_runaway"], "max_kl": 0.5, "min_entropy": None})
    config.validate()
    limits = config.guard_limits()
    assert (limits.stop_on_guards, limits.max_kl, limits.min_entropy) == (("kl_runaway",), 0.5, None)
