"""Passes over tries of rows: they change what an update costs, not what it computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.learner.learner_group import LearnerGroup
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    GPT2Config,
    LlamaConfig,
    MistralConfig,
    PretrainedConfig,
    Qwen2Config,
    Qwen3Config,
)

from rllib_gigpo.algorithms.group_policy.scoring import OLD_LOGP, REFERENCE_LOGP, VALUES, score_rows
from rllib_gigpo.algorithms.grpo import GRPOConfig
from rllib_gigpo.learners.response_scores import micro_batch_tensors
from rllib_gigpo.learners.shared_prefixes import Layout, trie_order
from rllib_gigpo.rl_modules.critic_rl_module import critic_id
from rllib_gigpo.rl_modules.lora import LoraSettings
from rllib_gigpo.rl_modules.shared_prefix_attention import (
    NAME,
    can_share_prefixes,
    enable_shared_prefixes,
    has_shared_prefixes,
)
from rllib_gigpo.rows import TokenRows
from tests.learner_cases import batch_of, build_learner_group, max_difference, random_rows, sharing_rows, weights_of
from tests.tiny_models import save_tiny_model, save_tiny_vlm, tiny_tokenizer

pytestmark = pytest.mark.integration

_SIZES: dict[str, Any] = {
    "vocab_size": 259,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 512,
    "initializer_range": 0.2,
    "pad_token_id": 0,
}


@pytest.fixture(scope="module")
def model_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("model"))


def _model(config: PretrainedConfig, **options: Any) -> Any:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return AutoModelForCausalLM.from_config(config, **options)


def _update(group: LearnerGroup, rows: TokenRows) -> dict[str, float]:
    (result,) = group.update(batch=batch_of(rows), timesteps={})
    return {name: float(stats.peek()) for name, stats in result[DEFAULT_MODULE_ID].items()}


@pytest.mark.parametrize("layout", ["packed", "trie"])
@pytest.mark.parametrize("config", [LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config])
def test_log_probs_and_gradients_are_those_of_each_row_alone(config: Any, layout: Layout) -> None:
    window = {"sliding_window": None} if config is MistralConfig else {}
    lm = _model(config(**_SIZES, **window))
    assert can_share_prefixes(lm)
    enable_shared_prefixes(lm)
    rows = sharing_rows(20)
    # Packed: some rows of equal length side by side, some not.
    rows = rows.take(trie_order(rows) if layout == "trie" else np.argsort(rows.lengths // 8, kind="stable"))
    weights = torch.from_numpy(np.random.default_rng(0).standard_normal(rows.num_response_tokens)).float()
    batch = micro_batch_tensors(rows, layout, pad_id=0, device="cpu")
    if layout == "trie":
        assert batch["input_ids"].numel() < rows.num_tokens / 1.5
    else:
        assert batch["input_ids"].numel() == rows.num_tokens
    logits = lm(
        input_ids=batch["input_ids"],
        attention_mask=batch["attention_mask"],
        position_ids=batch["position_ids"],
        shared_prefixes=batch["shared_prefixes"],
        logits_to_keep=batch["response_index"],
    ).logits[0]
    logp = logits.log_softmax(-1).gather(-1, batch["response_ids"][:, None])[:, 0]
    (logp * weights).sum().backward()
    gradients = {name: weight.grad.clone() for name, weight in lm.named_parameters()}

    lm.zero_grad()
    lm.set_attn_implementation("eager")
    expected = []
    for ids, length in zip(np.split(rows.token_ids, np.cumsum(rows.lengths)[:-1]), rows.response_lengths, strict=True):
        row = torch.from_numpy(ids.astype(np.int64))[None]
        of_row = lm(input_ids=row).logits[0, -length - 1 : -1].log_softmax(-1)
        expected.append(of_row.gather(-1, row[0, -length:, None])[:, 0])
    (torch.cat(expected) * weights).sum().backward()
    # float32 sums in another order, over two layers.
    torch.testing.assert_close(logp, torch.cat(expected), atol=1e-5, rtol=0)
    for name, weight in lm.named_parameters():
        assert float((weight.grad - gradients[name]).abs().max()) <= 1e-5 * float(weight.grad.abs().max()), name


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"lora": LoraSettings(rank=4), "kl_coeff": 0.5},
        {"kl_coeff": 0.5, "gradient_checkpointing": True},
        {"num_minibatches": 2, "num_epochs": 2, "entropy_coeff": 0.1, "temperature": 0.7, "lr": 0.01},
        {"ratio": "sequence", "loss_aggregation": "sequence-mean-token-mean", "importance_weight_cap": 2.0},
        {"torch_compile_learner": True, "torch_compile_learner_dynamo_backend": "eager"},
    ],
    ids=["plain", "lora-kl", "checkpointing-kl", "epochs-entropy", "sequence", "compiled"],
)
def test_an_update_gives_the_weights_and_metrics_of_the_plain_one(
    model_directory: Path, settings: dict[str, Any]
) -> None:
    rows = sharing_rows(30)
    plain, shared = (
        build_learner_group(model_directory, share_prefixes=share, micro_batch_tokens=400, **settings)
        for share in (False, True)
    )
    before = weights_of(plain)
    expected, metrics = _update(plain, rows), _update(shared, rows)
    assert metrics.pop("shared_prefix_share") > 0.3
    assert expected.pop("shared_prefix_share") == 0
    assert metrics.pop("padding_share") < expected.pop("padding_share")
    del metrics["num_micro_batches"], expected["num_micro_batches"]
    assert metrics == pytest.approx(expected, rel=1e-4, abs=1e-5)
    assert max_difference(weights_of(plain), weights_of(shared)) <= 1e-5
    assert max_difference(before, weights_of(plain)) > 1e-3, "the update moved the weights by far more"


@pytest.mark.parametrize("value_level", ["step", "token"])
def test_scores_and_the_critics_step_are_those_of_the_plain_passes(model_directory: Path, value_level: str) -> None:
    rows = sharing_rows(30)
    settings: dict[str, Any] = {"critic": True, "value_level": value_level, "kl_coeff": 0.5, "micro_batch_tokens": 400}
    plain, shared = (build_learner_group(model_directory, share_prefixes=on, **settings) for on in (False, True))
    critics = [group._learner.module[critic_id(DEFAULT_MODULE_ID)] for group in (plain, shared)]  # type: ignore[union-attr]
    rng = np.random.default_rng(0)
    state = {name: array + 0.05 * rng.standard_normal(array.shape) for name, array in critics[0].get_state().items()}
    scored = []
    for group, critic in zip((plain, shared), critics, strict=True):
        critic.set_state({name: array.astype(np.float32) for name, array in state.items()})
        scored.append(score_rows(group, rows, [OLD_LOGP, REFERENCE_LOGP, VALUES]))
    for name in ("old_logp", "reference_logp", "values"):
        expected, found = (getattr(of_group, name) for of_group in scored)
        np.testing.assert_allclose(found, expected, atol=1e-5)
    assert scored[0].values is not None and scored[0].values.std() > 0.1
    targets = np.full(rows.num_response_tokens, 2.0, np.float32)
    for group, of_group in zip((plain, shared), scored, strict=True):
        _update(group, of_group.with_response_columns(value_targets=targets))
    assert max_difference(critics[0].get_state(), critics[1].get_state()) <= 1e-5


@pytest.mark.parametrize("settings", [{}, {"kl_coeff": 0.5, "num_minibatches": 2, "gradient_checkpointing": True}])
def test_rows_that_share_nothing_are_packed(model_directory: Path, settings: dict[str, Any]) -> None:
    rows = random_rows(24)
    results = []
    for share in (False, True):
        group = build_learner_group(model_directory, share_prefixes=share, micro_batch_tokens=150, **settings)
        results.append((_update(group, rows), weights_of(group)))
    (expected, weights), (metrics, packed_weights) = results
    assert expected.pop("padding_share") > 0
    assert metrics.pop("padding_share") == 0
    assert metrics.pop("num_micro_batches") <= expected.pop("num_micro_batches")
    assert metrics == pytest.approx(expected, rel=1e-4, abs=1e-5)
    assert max_difference(weights, packed_weights) <= 1e-5


def test_an_update_keeps_less_for_the_backward_pass_than_the_plain_one(model_directory: Path) -> None:
    """At the same token budget, at every moment: of all tensors, what the largest micro-batch keeps."""
    kept = {}
    for share in (False, True):
        group = build_learner_group(model_directory, share_prefixes=share, micro_batch_tokens=1600)
        storages: dict[int, int] = {}

        def keep(tensor: torch.Tensor, of_pass: dict[int, int] = storages) -> torch.Tensor:
            storage = tensor.untyped_storage()
            of_pass[storage.data_ptr()] = storage.nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            metrics = _update(group, sharing_rows(30))
        assert metrics["num_micro_batches"] == 1
        kept[share] = sum(storages.values())
    assert kept[True] < kept[False]


@pytest.mark.parametrize(
    ("config", "options"),
    [
        (Qwen2Config(**_SIZES, use_sliding_window=True, sliding_window=8, max_window_layers=1), {}),
        (MistralConfig(**_SIZES, sliding_window=8), {}),
        (Gemma2Config(**_SIZES), {}),
        (GPT2Config(vocab_size=259, n_embd=32, n_layer=1, n_head=2), {}),
        (Qwen2Config(**_SIZES), {"attn_implementation": "eager"}),
    ],
    ids=["some-layers-windowed", "windowed", "gemma2", "gpt2", "eager"],
)
def test_a_model_whose_attention_is_another_keeps_the_plain_passes(
    tmp_path: Path, config: PretrainedConfig, options: dict[str, Any]
) -> None:
    lm = _model(config, **options)
    assert not can_share_prefixes(lm)
    if options:
        return
    lm.save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    group = build_learner_group(tmp_path)
    assert group._learner is not None
    assert not has_shared_prefixes(group._learner.module[DEFAULT_MODULE_ID].lm)
    assert _update(group, sharing_rows(12))["shared_prefix_share"] == 0


def test_a_vision_language_model_keeps_the_plain_passes(tmp_path: Path) -> None:
    group = build_learner_group(save_tiny_vlm(tmp_path / "model"))
    assert group._learner is not None
    assert not has_shared_prefixes(group._learner.module[DEFAULT_MODULE_ID].lm)
    assert _update(group, sharing_rows(6))["shared_prefix_share"] == 0


def test_a_checkpoint_does_not_name_the_attention_of_the_learner(model_directory: Path, tmp_path: Path) -> None:
    group = build_learner_group(model_directory)
    group.save_to_path(tmp_path / "checkpoint")
    configs = list((tmp_path / "checkpoint").rglob("huggingface/config.json"))
    assert configs
    assert all(NAME not in file.read_text(encoding="utf-8") for file in configs)


def test_the_option_reaches_the_module_and_must_be_true_or_false() -> None:
    assert GRPOConfig().share_prefixes is True
    config = GRPOConfig().environment("EZPoints").language_model(share_prefixes=False)
    assert config.get_default_rl_module_spec().model_config["share_prefixes"] is False
    with pytest.raises(ValueError, match="share_prefixes='no' must be True or False"):
        config.language_model(share_prefixes="no").validate()  # type: ignore[arg-type]
