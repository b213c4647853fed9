"""Policy and critic in one local learner: scores, what each learns, and that neither disturbs the other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.learner.learner_group import LearnerGroup
from transformers import AutoModelForCausalLM

from rllib_gigpo.algorithms.group_policy.scoring import OLD_LOGP, REFERENCE_LOGP, VALUES, score_rows
from rllib_gigpo.algorithms.group_policy.weight_delivery import take_weights
from rllib_gigpo.learners.actor_critic_torch_learner import ActorCriticTorchLearner
from rllib_gigpo.rl_modules.critic_rl_module import CriticRLModule, critic_id
from rllib_gigpo.rl_modules.lora import LoraSettings
from rllib_gigpo.rows import TokenRows
from tests.learner_cases import batch_of, build_learner_group, max_difference, random_rows, weights_of
from tests.tiny_models import save_tiny_model

pytestmark = pytest.mark.integration

CRITIC_ID = critic_id(DEFAULT_MODULE_ID)


@pytest.fixture(scope="module")
def model_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("model"))


def _learner(group: LearnerGroup) -> ActorCriticTorchLearner:
    assert group._learner is not None
    return group._learner


def _critic(group: LearnerGroup) -> CriticRLModule:
    return _learner(group).module[CRITIC_ID]


def _perturb(group: LearnerGroup) -> None:
    """Moves the critic away from its start, where all values are 0."""
    rng = np.random.default_rng(0)
    state = sorted(_critic(group).get_state().items())
    _critic(group).set_state({n: (a + 0.05 * rng.standard_normal(a.shape)).astype(np.float32) for n, a in state})


def _scored(group: LearnerGroup, rows: TokenRows, *, target: float) -> TokenRows:
    """Rows as an update takes them, with one target for every value."""
    rows = score_rows(group, rows, [VALUES])
    return rows.with_response_columns(value_targets=np.full(rows.num_response_tokens, target, np.float32))


def _update(group: LearnerGroup, rows: TokenRows) -> dict[str, float]:
    (result,) = group.update(batch=batch_of(rows), timesteps={})
    return {name: float(stats.peek()) for name, stats in result[DEFAULT_MODULE_ID].items()}


@pytest.mark.parametrize("value_level", ["step", "token"])
@pytest.mark.parametrize("lora", [None, LoraSettings(rank=2, targets=["model.layers.0.self_attn.q_proj", "up_proj"])])
def test_scores_equal_a_direct_forward_pass(model_directory: Path, value_level: str, lora: LoraSettings | None) -> None:
    group = build_learner_group(
        model_directory, critic=True, value_level=value_level, lora=lora, kl_coeff=0.1, micro_batch_tokens=90
    )
    _perturb(group)
    rows = random_rows(14)
    scored = score_rows(group, rows, [OLD_LOGP, REFERENCE_LOGP, VALUES])
    policy = AutoModelForCausalLM.from_pretrained(model_directory)
    critic = _critic(group)
    assert scored.values is not None and scored.old_logp is not None
    starts = np.cumsum(rows.response_lengths) - rows.response_lengths
    for ids, length, start in zip(
        np.split(rows.token_ids, np.cumsum(rows.lengths)[:-1]), rows.response_lengths, starts, strict=True
    ):
        row, of_row = torch.tensor(ids.astype(np.int64))[None], slice(start, start + length)
        with torch.no_grad():
            prompt_only = critic.head(critic.body(input_ids=row[:, :-length]).last_hidden_state[0, -1])
            values = critic.head(critic.body(input_ids=row).last_hidden_state[0, -length - 1 : -1])[:, 0]
            logp = policy(input_ids=row).logits[0, -length - 1 : -1].log_softmax(-1).gather(-1, row[0, -length:, None])
        expected = values.numpy() if value_level == "token" else np.repeat(prompt_only.numpy(), length)
        # float32 sums in another order, over two layers.
        np.testing.assert_allclose(scored.values[of_row], expected, atol=1e-5)
        np.testing.assert_allclose(scored.old_logp[of_row], logp[:, 0].numpy(), atol=1e-5)
    assert scored.values.std() > 0.1
    np.testing.assert_allclose(scored.reference_logp, scored.old_logp, atol=1e-6)


@pytest.mark.parametrize("value_level", ["step", "token"])
def test_the_critic_learns_a_constant_return_and_reports_its_loss(model_directory: Path, value_level: str) -> None:
    settings: dict[str, Any] = {"optimizer": "adamw", "lr": 0.0, "critic_lr": 3e-3, "value_level": value_level}
    group = build_learner_group(model_directory, critic=True, num_minibatches=2, num_epochs=2, **settings)
    losses = []
    for _ in range(8):
        # A row without advantage is out of the policy's loss, and not of the critic's.
        rows = replace(_scored(group, random_rows(16), target=3.0), in_loss=np.zeros(16, bool))
        losses.append(_update(group, rows)["value_loss"])
    assert losses[0] < 9.0, "all values start from 0, and fall within the first update"
    assert losses[-1] < 0.1 * losses[0], losses
    assert score_rows(group, random_rows(16), [VALUES]).values.mean() == pytest.approx(3.0, abs=0.6)


def test_the_first_value_loss_and_step_of_the_critic_are_those_of_its_formula(model_directory: Path) -> None:
    """Values 0, targets 2: the loss is 4; the gradient of the head's bias is coeff · mean 2·(0 − 2)."""
    rows = random_rows(9)
    for level in ("step", "token"):
        group = build_learner_group(
            model_directory, critic=True, value_level=level, micro_batch_tokens=70, critic_lr=0.1, value_loss_coeff=0.5
        )
        assert _update(group, _scored(group, rows, target=2.0))["value_loss"] == pytest.approx(4.0)
        assert _critic(group).get_state()["head.bias"] == pytest.approx(0.1 * 0.5 * 2 * 2, rel=1e-5)


def test_value_clip_bounds_how_far_an_update_moves_values(model_directory: Path) -> None:
    rows = random_rows(9)
    settings: dict[str, Any] = {"critic_lr": 0.05, "num_epochs": 15, "lr": 0.0, "grad_clip": 1.0}
    moved = {}
    for clip in (None, 0.5):
        group = build_learner_group(model_directory, critic=True, value_clip=clip, **settings)
        metrics = _update(group, _scored(group, rows, target=10.0))
        moved[clip] = score_rows(group, rows, [VALUES]).values.mean()
        assert (metrics["value_clip_fraction"] > 0.1) is (clip is not None)
    assert moved[0.5] < 0.25 * moved[None]


def test_policy_and_critic_do_not_disturb_each_other(model_directory: Path) -> None:
    rows = random_rows(12)
    alone = build_learner_group(model_directory, num_minibatches=2, grad_clip=0.1)
    alone.update(batch=batch_of(rows), timesteps={})
    both = build_learner_group(model_directory, critic=True, num_minibatches=2, grad_clip=0.1)
    _update(both, _scored(both, rows, target=50.0))
    assert max_difference(weights_of(alone), weights_of(both)) == 0

    other_policy = build_learner_group(model_directory, critic=True, num_minibatches=2, grad_clip=0.1, lr=0.0)
    _update(other_policy, _scored(other_policy, rows, target=50.0))
    assert max_difference(_critic(both).get_state(), _critic(other_policy).get_state()) == 0


def test_many_micro_batches_give_the_critic_of_one(model_directory: Path) -> None:
    critics = []
    for budget in (4096, 60):
        group = build_learner_group(model_directory, critic=True, micro_batch_tokens=budget, value_level="token")
        _perturb(group)
        _update(group, _scored(group, random_rows(15), target=1.0))
        critics.append(_critic(group).get_state())
    assert max_difference(*critics) <= 1e-6


def test_an_update_raises_what_has_a_positive_advantage_token_by_token(model_directory: Path) -> None:
    rows = random_rows(10)
    group = build_learner_group(model_directory, critic=True, value_level="token", lr=0.02)
    signs = np.where(np.arange(rows.num_response_tokens) % 3 == 0, 1.0, -1.0).astype(np.float32)
    before = _learner(group).compute_log_probs(rows)
    # One number per row would have the wrong sign for half of the tokens.
    _update(group, _scored(group, rows, target=0.0).with_response_columns(token_advantages=signs))
    moved = _learner(group).compute_log_probs(rows) - before
    assert moved[signs > 0].mean() > 0 > moved[signs < 0].mean()


def test_scores_are_not_computed_again_by_the_update(model_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group = build_learner_group(model_directory, critic=True, num_minibatches=2, kl_coeff=0.1, kl_in="reward")
    rows = _scored(group, score_rows(group, random_rows(8), [OLD_LOGP, REFERENCE_LOGP]), target=1.0)
    for method in _learner(group).scorers.values():
        monkeypatch.setattr(_learner(group), method, lambda *args: pytest.fail("scored again"))
    assert _update(group, rows)["skipped_optimizer_steps"] == 0


def test_a_penalty_in_the_reward_is_not_in_the_loss(model_directory: Path) -> None:
    losses = {}
    for kl_in in ("loss", "reward"):
        group = build_learner_group(model_directory, kl_coeff=1.0, kl_in=kl_in, lr=0.5)
        _update(group, random_rows(8))
        metrics = _update(group, random_rows(8))
        assert metrics["kl_to_reference"] > 1e-4
        losses[kl_in] = metrics["total_loss"] - metrics["policy_loss"]
    assert losses["loss"] > 1e-4 and losses["reward"] == 0


@pytest.mark.parametrize("missing", ["values", "value_targets"])
def test_rows_without_what_the_critic_learns_from_are_refused(model_directory: Path, missing: str) -> None:
    group = build_learner_group(model_directory, critic=True)
    rows = replace(_scored(group, random_rows(4), target=1.0), **{missing: None})
    with pytest.raises(ValueError, match=f"have no {missing}, from which its critic learns"):
        _update(group, rows)


def test_a_target_that_is_not_finite_skips_the_critics_step_alone(
    model_directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    group = build_learner_group(model_directory, critic=True)
    before, policy_before = _critic(group).get_state(), weights_of(group)
    metrics = _update(group, _scored(group, random_rows(4), target=np.nan))
    assert metrics["skipped_critic_steps"] == 1
    assert metrics["skipped_optimizer_steps"] == 0
    assert "default_policy_critic: loss or gradient is not finite" in caplog.text
    assert max_difference(before, _critic(group).get_state()) == 0
    assert max_difference(policy_before, weights_of(group)) > 0
    assert _update(group, random_rows(0).with_response_columns(values=(none := np.zeros(0)), value_targets=none))


@pytest.mark.parametrize("lora", [None, LoraSettings(rank=4)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_checkpoint_holds_the_critic_and_its_optimizer_exactly(
    model_directory: Path, tmp_path: Path, lora: LoraSettings | None, dtype: str
) -> None:
    settings: dict[str, Any] = {"critic": True, "optimizer": "adamw", "lr": 1e-3, "critic_lr": 1e-2}
    first = build_learner_group(model_directory, lora=lora, dtype=dtype, **settings)
    _update(first, _scored(first, random_rows(8), target=4.0))
    first.save_to_path(tmp_path / "checkpoint")
    folder = tmp_path / "checkpoint" / "learner" / "rl_module" / CRITIC_ID
    assert (folder / "module_state.pkl").stat().st_size < 1000, "weights are in no pickle"
    assert [file.name for file in (folder / "critic").iterdir()] == ["critic.safetensors"]

    by_path, by_state = (build_learner_group(model_directory, lora=lora, dtype=dtype, **settings) for _ in range(2))
    by_path.restore_from_path(tmp_path / "checkpoint")
    by_state.set_state(first.get_state())
    rows = _scored(first, random_rows(8, seed=1), target=4.0)
    for group in (first, by_path, by_state):
        _update(group, rows)
    for group in (by_path, by_state):
        for module_id in (DEFAULT_MODULE_ID, CRITIC_ID):
            expected, state = (g._learner.module[module_id].get_state() for g in (first, group))
            assert all((expected[name] == state[name]).all() for name in expected)


def test_critic_weights_are_not_delivered_and_with_an_adapter_the_body_stays(model_directory: Path) -> None:
    group = build_learner_group(
        model_directory, critic=True, lora=LoraSettings(rank=4), optimizer="adamw", critic_lr=1e-2
    )
    critic = _critic(group)
    frozen = {name: p.clone() for name, p in critic.named_parameters() if not p.requires_grad}
    for _ in range(2):
        _update(group, _scored(group, random_rows(8), target=4.0))
    assert all(torch.equal(frozen[name], p) for name, p in critic.named_parameters() if name in frozen)
    state = critic.get_state()
    assert state.keys() == {name for name, p in critic.named_parameters() if p.requires_grad}
    assert all(np.abs(array).max() > 0 for array in state.values())
    assert critic.get_state(inference_only=True) == {}
    assert set(take_weights(group, by_reference=False).weights) == set(weights_of(group))


def test_a_critic_that_is_not_there_or_does_not_fit_is_named(model_directory: Path, tmp_path: Path) -> None:
    critic = _critic(build_learner_group(model_directory, critic=True))
    with pytest.raises(ValueError, match=r"no critic\.safetensors in .*: the checkpoint has no critic"):
        critic.restore_from_path(tmp_path)
    state = critic.get_state()
    with pytest.raises(ValueError, match=r"unknown \['lm_head.weight'\]"):
        critic.set_state({**state, "lm_head.weight": state["head.weight"]})
    with pytest.raises(ValueError, match=r"missing \['weight'\]"):
        critic.set_state({name: array for name, array in state.items() if name != "head.weight"})
