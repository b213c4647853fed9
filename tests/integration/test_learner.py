"""One local learner on a tiny random language model: log-probs, gradients, splits, skipped steps, state."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.learner.learner_group import LearnerGroup
from transformers import AutoModelForCausalLM

from rllib_gigpo.learners.group_policy_torch_learner import GroupPolicyTorchLearner
from rllib_gigpo.rl_modules.causal_lm_rl_module import HUGGINGFACE_FOLDER, CausalLMRLModule, causal_lm_spec
from rllib_gigpo.rl_modules.model_directory import validate_model_directory
from rllib_gigpo.rows import TokenRowBatch, TokenRows
from tests.learner_cases import batch_of, build_learner_group, max_difference, random_rows, weights_of
from tests.tiny_models import save_tiny_model

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def model_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("model"))


def _learner(group: LearnerGroup) -> GroupPolicyTorchLearner:
    assert group._learner is not None
    return group._learner


def _update(group: LearnerGroup, rows: TokenRows) -> dict[str, float]:
    """One update; returns the metrics of the module as numbers."""
    (result,) = group.update(batch=batch_of(rows), timesteps={})
    return {name: float(stats.peek()) for name, stats in result[DEFAULT_MODULE_ID].items()}


def _updated(model_directory: Path, rows: TokenRows, **settings: Any) -> dict[str, np.ndarray]:
    group = build_learner_group(model_directory, **settings)
    _update(group, rows)
    return weights_of(group)


def _plain_log_probs(model: torch.nn.Module, rows: TokenRows, temperature: float = 1.0) -> list[torch.Tensor]:
    """Log-probs of each response ([R_i]), each row alone, without padding."""
    ids_of_rows = np.split(rows.token_ids.astype(np.int64), np.cumsum(rows.lengths)[:-1])
    result = []
    for ids, response_length in zip(ids_of_rows, rows.response_lengths.tolist(), strict=True):
        logits = model(input_ids=torch.tensor(ids)[None]).logits[0, -response_length - 1 : -1]
        log_probs = torch.log_softmax(logits / temperature, -1)
        result.append(log_probs.gather(-1, torch.tensor(ids[-response_length:])[:, None])[:, 0])
    return result


def test_log_probs_equal_those_of_each_row_alone(model_directory: Path) -> None:
    rows = random_rows(20)
    model = AutoModelForCausalLM.from_pretrained(model_directory)
    group = build_learner_group(model_directory, micro_batch_tokens=100, temperature=0.7)
    with torch.no_grad():
        expected = torch.cat(_plain_log_probs(model, rows, temperature=0.7)).numpy()
    scored = _learner(group).compute_log_probs(rows)
    assert scored.dtype == np.float32
    # float32 sums in another order, over two layers.
    np.testing.assert_allclose(scored, expected, atol=1e-5)


def test_log_probs_differ_where_one_token_differs(model_directory: Path) -> None:
    rows = random_rows(20)
    learner = _learner(build_learner_group(model_directory, micro_batch_tokens=100))
    first_response_token = rows.lengths[0] - rows.response_lengths[0]
    token_ids = rows.token_ids.copy()
    token_ids[first_response_token] = 3 + (token_ids[first_response_token] - 2) % 250
    before, after = learner.compute_log_probs(rows), learner.compute_log_probs(replace(rows, token_ids=token_ids))
    assert abs(before[0] - after[0]) > 1e-2
    other_rows = slice(int(rows.response_lengths[0]), None)
    np.testing.assert_allclose(before[other_rows], after[other_rows], atol=1e-5)


@pytest.mark.parametrize("aggregation", ["token-mean", "sequence-mean-token-mean"])
@pytest.mark.parametrize("micro_batch_tokens", [1, 90])
def test_many_micro_batches_give_the_weights_of_one(
    model_directory: Path, aggregation: str, micro_batch_tokens: int
) -> None:
    rows = random_rows(24)
    one = _updated(model_directory, rows, loss_aggregation=aggregation)
    many = _updated(model_directory, rows, loss_aggregation=aggregation, micro_batch_tokens=micro_batch_tokens)
    assert max_difference(one, many) <= 1e-6
    initial = weights_of(build_learner_group(model_directory))
    assert max_difference(one, initial) > 1e-4, "the update moved the weights by far more than the tolerance"


def test_the_step_is_the_gradient_of_the_token_mean_over_plain_rows(model_directory: Path) -> None:
    rows = random_rows(12)
    model = AutoModelForCausalLM.from_pretrained(model_directory)
    # On-policy, the ratio is 1 and its gradient that of the log-prob.
    loss = -sum(
        advantage * logp.sum()
        for advantage, logp in zip(rows.advantages.tolist(), _plain_log_probs(model, rows), strict=True)
    )
    (loss / rows.num_response_tokens).backward()
    expected = {
        name: (param - 0.1 * param.grad).detach().numpy()
        for name, param in model.named_parameters()
        if param.grad is not None
    }
    assert max_difference(_updated(model_directory, rows, lr=0.1), expected) <= 1e-6


def test_rows_out_of_the_loss_change_the_denominator_and_nothing_else(model_directory: Path) -> None:
    trained, extra = random_rows(10, seed=1), random_rows(10, seed=2)
    both = TokenRows.concat(
        [trained, replace(extra, in_loss=np.zeros(10, bool), advantages=np.full(10, np.nan, np.float32))]
    )
    share = trained.num_response_tokens / both.num_response_tokens
    with_extra = _updated(model_directory, both, lr=0.1)
    without = _updated(model_directory, trained, lr=0.1 * share)
    assert max_difference(with_extra, without) <= 1e-6


def test_a_mini_batch_in_which_nothing_counts_takes_no_step(model_directory: Path) -> None:
    rows = replace(random_rows(6), in_loss=np.zeros(6, bool))
    # AdamW would move the weights even with gradients of zero: weight decay, and momentum later.
    group = build_learner_group(model_directory, optimizer="adamw", weight_decay=0.1, lr=0.01)
    before = weights_of(group)
    metrics = _update(group, rows)
    assert max_difference(before, weights_of(group)) == 0
    assert metrics["skipped_optimizer_steps"] == 1
    assert metrics["non_finite_gradients"] == 0
    assert metrics["rows_in_loss_share"] == 0


def test_a_batch_without_rows_takes_no_step(model_directory: Path) -> None:
    group = build_learner_group(model_directory, num_minibatches=2)
    before = weights_of(group)
    assert _update(group, random_rows(0))["skipped_optimizer_steps"] == 2
    assert max_difference(before, weights_of(group)) == 0


def test_fewer_rows_than_mini_batches_take_a_step_each_and_skip_the_rest(model_directory: Path) -> None:
    metrics = _update(build_learner_group(model_directory, num_minibatches=4), random_rows(1))
    assert metrics["skipped_optimizer_steps"] == 3


def test_a_gradient_that_is_not_finite_takes_no_step_and_is_counted(
    model_directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = random_rows(6)
    advantages = rows.advantages.copy()
    advantages[2] = np.nan
    group = build_learner_group(model_directory, micro_batch_tokens=60, grad_clip=1.0)
    before = weights_of(group)
    metrics = _update(group, replace(rows, advantages=advantages))
    assert max_difference(before, weights_of(group)) == 0
    assert metrics["skipped_optimizer_steps"] == metrics["non_finite_gradients"] == 1
    assert "optimizer step skipped" in caplog.text
    assert _update(group, rows)["skipped_optimizer_steps"] == 0, "the next update is not affected"
    assert max_difference(before, weights_of(group)) > 1e-4


def test_the_gradient_is_clipped_to_its_norm_and_reported_before_that(model_directory: Path) -> None:
    rows = random_rows(12)
    group = build_learner_group(model_directory, lr=1.0, grad_clip=0.01)
    before = weights_of(group)
    metrics = _update(group, rows)
    after = weights_of(group)
    step = np.sqrt(sum(float(((before[name] - after[name]) ** 2).sum()) for name in before))
    assert metrics["gradient_norm"] > 0.1
    assert step == pytest.approx(0.01, rel=1e-3)


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(model_directory: Path) -> None:
    rows = random_rows(16)
    settings: dict[str, Any] = {"num_minibatches": 4, "num_epochs": 2, "optimizer": "adamw", "lr": 1e-3}
    first, again, other = (_updated(model_directory, rows, seed=seed, **settings) for seed in (5, 5, 6))
    assert max_difference(first, again) == 0
    assert max_difference(first, other) > 0


def test_new_tensors_are_not_filled_where_a_seed_makes_torch_deterministic(model_directory: Path) -> None:
    build_learner_group(model_directory, seed=5)
    assert torch.are_deterministic_algorithms_enabled()
    assert not torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]


def test_with_several_steps_the_ratio_is_to_the_policy_before_the_first(model_directory: Path) -> None:
    rows = random_rows(16)
    group = build_learner_group(model_directory, num_minibatches=2, lr=1.0)
    metrics = _update(group, rows)
    assert metrics["ratio_max"] > 1.001, "the second step sees a policy that the first has moved"
    assert metrics["kl_to_old"] > 0
    assert metrics["skipped_optimizer_steps"] == 0

    single = _update(build_learner_group(model_directory, lr=1.0), rows)
    assert single["ratio_mean"] == single["ratio_max"] == 1
    assert single["kl_to_old"] == 0


def test_two_mini_batches_equal_two_updates_with_the_old_log_probs_given(model_directory: Path) -> None:
    rows = replace(random_rows(17), in_loss=np.arange(17) % 4 != 0)
    group = build_learner_group(model_directory, num_minibatches=2)
    _update(group, rows)

    by_hand = build_learner_group(model_directory)
    scored = rows.with_old_logp(_learner(by_hand).compute_log_probs(rows))
    order = np.random.default_rng([0, 1, 0]).permutation(17)
    for part in np.array_split(order, 2):
        _update(by_hand, scored.take(part))
    assert max_difference(weights_of(group), weights_of(by_hand)) <= 1e-6


def test_the_sampler_gap_and_the_truncated_importance_weights_use_the_rollout_log_probs(model_directory: Path) -> None:
    rows = random_rows(8)
    plain = build_learner_group(model_directory, lr=0.1)
    own = _learner(plain).compute_log_probs(rows)
    # Everywhere e times likelier for the learner than for the sampler: weight e, truncated to 2.
    rows = replace(rows, rollout_logp=own - 1)
    metrics = _update(plain, rows)
    assert metrics["sampler_learner_gap_mean"] == pytest.approx(1, abs=1e-4)
    assert metrics["sampler_learner_gap_max"] == pytest.approx(1, abs=1e-4)

    corrected = _updated(model_directory, rows, lr=0.05, importance_weight_cap=2.0)
    assert max_difference(weights_of(plain), corrected) <= 1e-6


def test_metrics_describe_the_mini_batch(model_directory: Path) -> None:
    rows = replace(random_rows(8), in_loss=np.arange(8) < 6, weights_version=np.full(8, -3))
    metrics = _update(build_learner_group(model_directory, micro_batch_tokens=1), rows)
    assert metrics["response_tokens"] == rows.num_response_tokens
    assert metrics["num_micro_batches"] == 6
    assert metrics["padding_share"] == 0, "every row went alone"
    assert metrics["rows_in_loss_share"] == 0.75
    assert metrics["weights_version_lag_mean"] == 3, "the first update starts from version 0"
    assert 0 < metrics["entropy"] < np.log(259)
    on_policy = -(rows.advantages * rows.response_lengths)[:6].sum() / rows.num_response_tokens
    assert metrics["policy_loss"] == pytest.approx(on_policy, rel=1e-5)


def test_padding_is_what_the_budget_and_the_metric_say(model_directory: Path) -> None:
    rows = random_rows(8)
    padded = 8 * rows.lengths.max()
    for share_prefixes, padding_share in ((False, 1 - rows.num_tokens / padded), (True, 0.0)):
        group = build_learner_group(model_directory, share_prefixes=share_prefixes, micro_batch_tokens=int(padded))
        metrics = _update(group, rows)
        assert metrics["num_micro_batches"] == 1
        assert metrics["padding_share"] == pytest.approx(padding_share)


def test_frozen_weights_get_neither_gradient_nor_step(model_directory: Path) -> None:
    group = build_learner_group(model_directory, num_minibatches=2)
    frozen = "model.embed_tokens.weight"
    dict(_learner(group).module[DEFAULT_MODULE_ID].lm.named_parameters())[frozen].requires_grad_(False)
    before = weights_of(group)
    _update(group, random_rows(8))
    after = weights_of(group)
    assert (before[frozen] == after[frozen]).all()
    assert max_difference(before, after) > 0


def test_a_batch_of_another_kind_or_for_an_unknown_module_is_refused(model_directory: Path) -> None:
    group = build_learner_group(model_directory)
    with pytest.raises(TypeError, match="learns from a TokenRowBatch"):
        group.update(batch={"input_ids": np.zeros(3)}, timesteps={})
    with pytest.raises(ValueError, match=r"modules \['other'\]"):
        group.update(batch=TokenRowBatch({"other": random_rows(2)}, env_steps=2), timesteps={})


def test_state_carries_weights_and_optimizer_to_another_learner(model_directory: Path) -> None:
    rows = random_rows(10)
    settings: dict[str, Any] = {"optimizer": "adamw", "lr": 1e-3}
    first = build_learner_group(model_directory, **settings)
    _update(first, rows)
    state = first.get_state()
    second = build_learner_group(model_directory, **settings)
    second.set_state(state)
    assert max_difference(weights_of(first), weights_of(second)) == 0
    for group in (first, second):
        _update(group, rows)
    assert max_difference(weights_of(first), weights_of(second)) == 0
    # Without the moments the second step would be another one.
    assert max_difference(weights_of(first), state["learner"]["rl_module"][DEFAULT_MODULE_ID]) > 0


@pytest.mark.parametrize("tied", [True, False])
def test_a_checkpoint_restores_the_learner_and_holds_a_hugging_face_directory(tmp_path: Path, tied: bool) -> None:
    directory = save_tiny_model(tmp_path / "model", tie_word_embeddings=tied)
    rows = random_rows(10)
    settings: dict[str, Any] = {"optimizer": "adamw", "lr": 1e-3}
    first = build_learner_group(directory, **settings)
    _update(first, rows)
    first.save_to_path(tmp_path / "checkpoint")

    module_folder = tmp_path / "checkpoint" / "learner" / "rl_module" / DEFAULT_MODULE_ID
    assert (module_folder / "module_state.pkl").stat().st_size < 1000, "weights are in no pickle"
    validate_model_directory(module_folder / HUGGINGFACE_FOLDER)
    saved = AutoModelForCausalLM.from_pretrained(module_folder / HUGGINGFACE_FOLDER).state_dict()
    weights = weights_of(first)
    assert ("lm_head.weight" in weights) is not tied
    assert all((saved[name].numpy() == weights[name]).all() for name in weights)

    second = build_learner_group(directory, **settings)
    _update(second, random_rows(10, seed=9))
    second.restore_from_path(tmp_path / "checkpoint")
    assert max_difference(weights, weights_of(second)) == 0
    for group in (first, second):
        _update(group, rows)
    assert max_difference(weights_of(first), weights_of(second)) == 0


def test_a_module_is_built_again_from_its_checkpoint_on_any_filesystem(tmp_path: Path, model_directory: Path) -> None:
    module = causal_lm_spec(str(model_directory)).build()
    state = {name: array + 1 for name, array in module.get_state().items()}
    module.set_state(state)
    module.save_to_path(tmp_path / "local")
    # Stands for an object store: not a LocalFileSystem, so weights go through a temporary directory.
    store = SubTreeFileSystem(str(tmp_path), LocalFileSystem())
    module.save_to_path("/stored", filesystem=store)
    for restored in (
        CausalLMRLModule.from_checkpoint(tmp_path / "local"),
        CausalLMRLModule.from_checkpoint("/stored", filesystem=store),
    ):
        assert max_difference(state, restored.get_state()) == 0


def test_bfloat16_weights_and_optimizer_survive_state_and_checkpoint(tmp_path: Path) -> None:
    directory = save_tiny_model(tmp_path / "model")
    settings: dict[str, Any] = {"optimizer": "adamw", "lr": 1e-3, "dtype": "bfloat16"}
    first = build_learner_group(directory, **settings)
    _update(first, random_rows(4))
    before = weights_of(first)
    assert {array.dtype for array in before.values()} == {np.dtype("uint16")}, "numpy has no bfloat16: its bits"
    first.save_to_path(tmp_path / "checkpoint")
    by_state, by_path = (build_learner_group(directory, **settings) for _ in range(2))
    by_state.set_state(first.get_state())
    by_path.restore_from_path(tmp_path / "checkpoint")
    for group in (first, by_state, by_path):
        assert all((before[name] == array).all() for name, array in weights_of(group).items())
        _update(group, random_rows(4, seed=1))
    for group in (by_state, by_path):
        assert all((weights_of(first)[name] == array).all() for name, array in weights_of(group).items())
    assert any((before[name] != array).any() for name, array in weights_of(first).items())


def test_float16_weights_travel_but_are_not_trained(model_directory: Path) -> None:
    with pytest.raises(ValueError, match="'float16', which cannot be trained"):
        build_learner_group(model_directory, dtype="float16")
    module = causal_lm_spec(str(model_directory), dtype="float16").build()
    state = module.get_state()
    assert {array.dtype for array in state.values()} == {np.dtype("float16")}
    module.set_state({name: array + 1 for name, array in state.items()})
    assert (module.get_state()["model.norm.weight"] == state["model.norm.weight"] + 1).all()


def test_weights_that_do_not_fit_are_refused_and_change_nothing(model_directory: Path) -> None:
    module = _learner(build_learner_group(model_directory)).module[DEFAULT_MODULE_ID]
    state = module.get_state()
    name = "model.norm.weight"
    with pytest.raises(ValueError, match=r"missing \['model.norm.weight'\]"):
        module.set_state({key: value for key, value in state.items() if key != name})
    with pytest.raises(ValueError, match=r"unknown \['extra'\]"):
        module.set_state({**state, "extra": state[name]})
    with pytest.raises(ValueError, match=r"'model.norm.weight' has shape \(3,\)"):
        module.set_state({**{key: value + 1 for key, value in state.items()}, name: np.zeros(3, np.float32)})
    assert max_difference(state, module.get_state()) == 0


def test_a_state_is_a_copy(model_directory: Path) -> None:
    group = build_learner_group(model_directory)
    state = weights_of(group)
    kept = {name: array.copy() for name, array in state.items()}
    _update(group, random_rows(4))
    assert max_difference(state, kept) == 0
