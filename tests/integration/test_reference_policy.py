"""The KL term: the reference is the model that training started from, scored once, and training it alone lowers it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.learner.learner_group import LearnerGroup
from ray.rllib.utils.metrics import NUM_ENV_STEPS_SAMPLED_LIFETIME
from transformers import AutoModelForCausalLM

from rllib_gigpo.learners.group_policy_torch_learner import GroupPolicyTorchLearner
from rllib_gigpo.rl_modules.lora import LoraSettings
from rllib_gigpo.rows import TokenRows
from tests.learner_cases import batch_of, build_learner_group, max_difference, random_rows, weights_of
from tests.tiny_models import save_tiny_model

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def model_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("model"))


def _learner(group: LearnerGroup) -> GroupPolicyTorchLearner:
    assert group._learner is not None
    return group._learner


def _update(group: LearnerGroup, rows: TokenRows, steps_sampled: int = 0) -> dict[str, float]:
    """One update; returns the metrics of the module as numbers."""
    (result,) = group.update(batch=batch_of(rows), timesteps={NUM_ENV_STEPS_SAMPLED_LIFETIME: steps_sampled})
    return {name: float(stats.peek()) for name, stats in result[DEFAULT_MODULE_ID].items()}


def _perturb(group: LearnerGroup, scale: float = 0.02) -> None:
    """Moves the weights away from the model directory's, as training does."""
    rng = np.random.default_rng(0)
    module = _learner(group).module[DEFAULT_MODULE_ID]
    module.set_state(
        {
            name: (array + scale * rng.standard_normal(array.shape)).astype(np.float32)
            for name, array in sorted(module.get_state().items())
        }
    )


def _perturbed_group(model_directory: Path, **settings: Any) -> LearnerGroup:
    group = build_learner_group(model_directory, kl_coeff=settings.pop("kl_coeff", 0.1), **settings)
    _perturb(group)
    return group


@pytest.mark.parametrize("lora", [None, LoraSettings(rank=4)])
@pytest.mark.parametrize(
    ("dtype", "estimator"), [("float32", "k1"), ("float32", "k2"), ("float32", "k3"), ("bfloat16", "k3")]
)
def test_the_kl_of_the_first_step_is_zero(
    model_directory: Path, lora: LoraSettings | None, dtype: str, estimator: str
) -> None:
    group = build_learner_group(model_directory, kl_coeff=0.1, kl_estimator=estimator, lora=lora, dtype=dtype, lr=1.0)
    rows = random_rows(12)
    metrics = _update(group, rows)
    assert metrics["kl_to_reference"] == 0
    assert metrics["total_loss"] == metrics["policy_loss"]
    assert _update(group, rows)["kl_to_reference"] > 1e-6, "that step moved the policy, and not the reference"


def test_without_a_coefficient_there_is_no_reference(model_directory: Path) -> None:
    group = build_learner_group(model_directory)
    assert "kl_to_reference" not in _update(group, random_rows(4))
    assert _learner(group)._references == {}
    schedule_of_zeros = build_learner_group(model_directory, kl_coeff=[[0, 0.0], [10, 0.0]])
    assert _learner(schedule_of_zeros)._references == {}


@pytest.mark.parametrize("aggregation", ["token-mean", "sequence-mean-token-mean"])
@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
def test_the_loss_has_the_kl_to_the_model_directory(model_directory: Path, estimator: str, aggregation: str) -> None:
    rows = random_rows(12)
    group = _perturbed_group(
        model_directory,
        kl_coeff=0.5,
        kl_estimator=estimator,
        loss_aggregation=aggregation,
        temperature=0.7,
        micro_batch_tokens=90,
    )
    plain = AutoModelForCausalLM.from_pretrained(model_directory)
    new, old = [_log_probs(model, rows, 0.7) for model in (_learner(group).module[DEFAULT_MODULE_ID].lm, plain)]
    x = np.concatenate(new) - np.concatenate(old)
    k3 = np.exp(-x) - 1 + x
    token_values = {"k1": x, "k2": x**2 / 2, "k3": k3}[estimator]
    starts = np.concatenate([[0], np.cumsum(rows.response_lengths)[:-1]])
    row_means = np.add.reduceat(token_values, starts) / rows.response_lengths
    expected = token_values.mean() if aggregation == "token-mean" else row_means.mean()

    metrics = _update(group, rows)
    assert metrics["kl_to_reference"] == pytest.approx(k3.mean(), rel=1e-3)
    # float32 log-probs, of both sides of a difference.
    assert metrics["total_loss"] - metrics["policy_loss"] == pytest.approx(0.5 * expected, rel=1e-3, abs=1e-5)


def _log_probs(model: Any, rows: TokenRows, temperature: float) -> list[np.ndarray]:
    """Log-probs of each response, each row alone."""
    result = []
    for ids, length in zip(np.split(rows.token_ids, np.cumsum(rows.lengths)[:-1]), rows.response_lengths, strict=True):
        ids = torch.tensor(ids.astype(np.int64))
        with torch.no_grad():
            logits = model(input_ids=ids[None]).logits[0, -length - 1 : -1].double() / temperature
        result.append(logits.log_softmax(-1).gather(-1, ids[-length:, None])[:, 0].numpy())
    return result


# The gradient of k2 is that of k1.
@pytest.mark.parametrize("estimator", ["k1", "k3"])
def test_kl_alone_pulls_the_policy_back_to_the_reference(model_directory: Path, estimator: str) -> None:
    """Responses of one token, sampled from the policy before each update: its KL over all tokens is exact."""
    group = _perturbed_group(model_directory, kl_coeff=1.0, kl_estimator=estimator, optimizer="adamw", lr=1e-3)
    module = _learner(group).module[DEFAULT_MODULE_ID]
    reference = AutoModelForCausalLM.from_pretrained(model_directory)
    prompts = torch.from_numpy(np.random.default_rng(0).integers(3, 259, (256, 6)))
    generator = torch.Generator().manual_seed(0)
    kls = []
    for _ in range(15):
        with torch.no_grad():
            p, q = [lm(input_ids=prompts).logits[:, -1].log_softmax(-1) for lm in (module.lm, reference)]
        kls.append(float((p.exp() * (p - q)).sum(-1).mean()))
        tokens = torch.multinomial(p.exp(), 1, generator=generator)
        logp = p.gather(-1, tokens).numpy()
        _update(group, TokenRows.from_lists(list(prompts.numpy()), list(tokens.numpy()), list(logp)))
    assert np.mean(kls[-3:]) < 0.8 * kls[0], kls


def test_rows_out_of_the_loss_take_no_part_in_the_kl(model_directory: Path) -> None:
    trained, extra = random_rows(10, seed=1), random_rows(10, seed=2)
    both = TokenRows.concat([trained, replace(extra, in_loss=np.zeros(10, bool))])
    share = trained.num_response_tokens / both.num_response_tokens
    with_extra, without = (
        _perturbed_group(model_directory, kl_coeff=1.0, lr=lr, num_minibatches=1) for lr in (0.1, 0.1 * share)
    )
    kl_with, kl_without = _update(with_extra, both), _update(without, trained)
    assert kl_with["kl_to_reference"] == pytest.approx(kl_without["kl_to_reference"], rel=1e-5)
    assert max_difference(weights_of(with_extra), weights_of(without)) <= 1e-6


@pytest.mark.parametrize("lora", [None, LoraSettings(rank=4)])
def test_the_reference_is_scored_once_whatever_the_number_of_steps(
    model_directory: Path, lora: LoraSettings | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = replace(random_rows(17), in_loss=np.arange(17) % 4 != 0)
    group = _perturbed_group(model_directory, lora=lora, num_minibatches=2, num_epochs=2)
    learner = _learner(group)
    scored: list[int] = []
    compute = learner.compute_reference_log_probs
    monkeypatch.setattr(
        learner, "compute_reference_log_probs", lambda part, *args: scored.append(len(part)) or compute(part, *args)
    )
    _update(group, rows)
    assert scored == [int(rows.in_loss.sum())]


def test_the_reference_is_not_what_a_checkpoint_holds(model_directory: Path, tmp_path: Path) -> None:
    for name, lora in (("full", None), ("adapter", LoraSettings(rank=4))):
        group = _perturbed_group(model_directory, lora=lora)
        group.save_to_path(tmp_path / name)
        restored = build_learner_group(model_directory, kl_coeff=0.1, lora=lora)
        restored.restore_from_path(tmp_path / name)
        rows = random_rows(8)
        continued, after = _update(group, rows), _update(restored, rows)
        assert after["kl_to_reference"] == continued["kl_to_reference"] > 1e-4


def test_the_coefficient_follows_its_schedule(model_directory: Path) -> None:
    group = _perturbed_group(model_directory, kl_coeff=[[0, 1.0], [100, 0.0]], lr=1e-6)
    shares = []
    for steps_sampled in (0, 50, 200):
        metrics = _update(group, random_rows(8), steps_sampled)
        shares.append((metrics["total_loss"] - metrics["policy_loss"]) / metrics["kl_to_reference"])
    assert shares == pytest.approx([1.0, 0.5, 0.0], abs=1e-3)


def test_the_entropy_bonus_raises_entropy(model_directory: Path) -> None:
    rows = replace(random_rows(12), advantages=np.zeros(12, np.float32))
    group = build_learner_group(model_directory, entropy_coeff=0.5, lr=0.1)
    metrics = [_update(group, rows) for _ in range(5)]
    assert metrics[0]["total_loss"] == pytest.approx(-0.5 * metrics[0]["entropy"], rel=1e-5)
    assert metrics[-1]["entropy"] > metrics[0]["entropy"] + 0.1
