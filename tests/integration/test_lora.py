"""LoRA: only the adapter is trained, delivered and saved; the base stays as it is; exports are plain HF and PEFT."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import peft
import pytest
import torch
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.learner.learner_group import LearnerGroup
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer
from typer.testing import CliRunner

from rllib_gigpo.algorithms.gigpo.gigpo import GiGPO
from rllib_gigpo.cli.main import app
from rllib_gigpo.env_adapters import embedded_model_path
from rllib_gigpo.rl_modules.causal_lm_rl_module import HUGGINGFACE_FOLDER, CausalLMRLModule, causal_lm_spec
from rllib_gigpo.rl_modules.lora import LoraSettings, adapter_disabled, is_adapter_weight
from rllib_gigpo.rl_modules.model_directory import load_causal_lm, validate_model_directory
from tests.algorithm_cases import largest_difference, small_config
from tests.algorithm_cases import weights_of as algorithm_weights
from tests.learner_cases import batch_of, build_learner_group, max_difference, random_rows, weights_of
from tests.tiny_models import save_tiny_model

pytestmark = pytest.mark.integration

LORA = LoraSettings(rank=4, alpha=8.0)
PROMPTS = torch.from_numpy(np.random.default_rng(0).integers(3, 259, (8, 12)))


@pytest.fixture(scope="module")
def model_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("model"))


def _module(group: LearnerGroup) -> CausalLMRLModule:
    assert group._learner is not None
    return group._learner.module[DEFAULT_MODULE_ID]


def _trained(model_directory: Path, **settings: Any) -> LearnerGroup:
    group = build_learner_group(model_directory, **{"lora": LORA, "optimizer": "adamw", "lr": 1e-2, **settings})
    for seed in range(2):
        group.update(batch=batch_of(random_rows(8, seed=seed)), timesteps={})
    return group


@torch.no_grad()
def _logits(lm: Any, prompts: torch.Tensor = PROMPTS) -> torch.Tensor:
    return lm.eval()(input_ids=prompts).logits.float()


def _assert_base_is_that_of(lm: Any, model_directory: Path) -> None:
    saved = load_file(model_directory / "model.safetensors")
    own = {name.replace(".base_layer", ""): t for name, t in lm.named_parameters() if not is_adapter_weight(name)}
    assert own.keys() >= saved.keys()
    assert all(torch.equal(own[name], tensor) for name, tensor in saved.items())


def test_only_the_adapter_is_trained_and_travels(model_directory: Path) -> None:
    group = _trained(model_directory)
    module = _module(group)
    state = module.get_state(inference_only=True)
    trainable = {name for name, parameter in module.lm.named_parameters() if parameter.requires_grad}
    # Seven linear layers in each of two layers, two matrices each.
    assert state.keys() == trainable
    assert len(state) == 2 * 7 * 2
    assert all(np.abs(array).max() > 0 for array in state.values()), "both halves have moved"
    _assert_base_is_that_of(module.lm, model_directory)


def test_a_fresh_adapter_changes_nothing_and_comes_from_its_seed_alone(model_directory: Path) -> None:
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    first, again, other = (
        causal_lm_spec(str(model_directory), lora=LORA._replace(seed=seed)).build() for seed in (1, 1, 2)
    )
    assert torch.equal(before, torch.random.get_rng_state())
    assert max_difference(first.get_state(), again.get_state()) == 0
    assert max_difference(first.get_state(), other.get_state()) > 0
    assert torch.equal(_logits(first.lm), _logits(load_causal_lm(model_directory)))


def test_a_disabled_adapter_leaves_the_base_model(model_directory: Path) -> None:
    module = _module(_trained(model_directory))
    trained = _logits(module.lm)
    base = _logits(load_causal_lm(model_directory))
    assert (trained - base).abs().max() > 0.1
    with adapter_disabled(module.lm):
        assert torch.equal(_logits(module.lm), base)
    assert torch.equal(_logits(module.lm), trained)
    assert {name for name, p in module.lm.named_parameters() if p.requires_grad} == module.get_state().keys()
    module.lm.requires_grad_(False)
    with adapter_disabled(module.lm):
        pass
    assert not any(parameter.requires_grad for parameter in module.lm.parameters()), "an engine's stays frozen"


def _distance_reached(lm: Any, trained: list[torch.nn.Parameter], goal: torch.Tensor, steps: int) -> float:
    """Trains parameters towards a model's logits; returns the mean squared distance that is left."""
    lm.requires_grad_(False)
    for parameter in trained:
        parameter.requires_grad_(True)
    optimizer = torch.optim.Adam(trained, lr=2e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = (lm(input_ids=PROMPTS).logits - goal).square().mean()
        loss.backward()
        optimizer.step()
        schedule.step()
    return float((_logits(lm) - goal).square().mean())


def test_an_adapter_of_full_rank_reaches_what_training_the_layer_reaches(model_directory: Path) -> None:
    """The goal is the model with another random matrix in one layer, which rank 1 cannot make of the first."""
    layer = "model.layers.1.self_attn.o_proj"
    goal_lm = load_causal_lm(model_directory)
    weight = goal_lm.get_submodule(layer).weight
    weight.data += 0.1 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(0))
    goal = _logits(goal_lm)
    start = float((_logits(load_causal_lm(model_directory)) - goal).square().mean())

    full = load_causal_lm(model_directory)
    reached = {"full": _distance_reached(full, [full.get_submodule(layer).weight], goal, steps=120)}
    for rank in (1, min(weight.shape)):
        module = causal_lm_spec(str(model_directory), lora=LoraSettings(rank, targets=[layer])).build()
        adapter = [p for name, p in module.lm.named_parameters() if is_adapter_weight(name)]
        assert len(adapter) == 2
        reached[f"rank {rank}"] = _distance_reached(module.lm, adapter, goal, steps=120)
    # All but a hundredth of the way, for what 120 steps of Adam leave of either.
    assert reached["full"] < 1e-2 * start, reached
    assert reached[f"rank {min(weight.shape)}"] < 1e-2 * start, reached
    assert reached["rank 1"] > 0.1 * start, reached


def test_the_checkpoint_holds_a_peft_directory_and_restores(model_directory: Path, tmp_path: Path) -> None:
    group = _trained(model_directory)
    group.save_to_path(tmp_path / "checkpoint")
    (adapter,) = (tmp_path / "checkpoint").rglob(HUGGINGFACE_FOLDER)
    assert {"adapter_config.json", "adapter_model.safetensors"} <= {file.name for file in adapter.iterdir()}
    assert not list(adapter.glob("model*.safetensors"))
    by_peft = peft.PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(model_directory), str(adapter))
    assert torch.equal(_logits(by_peft), _logits(_module(group).lm))

    restored = build_learner_group(model_directory, lora=LORA, optimizer="adamw", lr=1e-2)
    restored.restore_from_path(tmp_path / "checkpoint")
    for each in (group, restored):
        each.update(batch=batch_of(random_rows(8, seed=5)), timesteps={})
    assert max_difference(weights_of(group), weights_of(restored)) == 0


def test_a_module_is_built_again_from_its_checkpoint_on_any_filesystem(model_directory: Path, tmp_path: Path) -> None:
    module = _module(_trained(model_directory))
    module.save_to_path(tmp_path / "local")
    store = SubTreeFileSystem(str(tmp_path), LocalFileSystem())
    module.save_to_path("/stored", filesystem=store)
    for restored in (
        CausalLMRLModule.from_checkpoint(tmp_path / "local"),
        CausalLMRLModule.from_checkpoint("/stored", filesystem=store),
    ):
        assert max_difference(module.get_state(), restored.get_state()) == 0


def test_a_checkpoint_of_another_kind_is_refused(model_directory: Path, tmp_path: Path) -> None:
    for name, lora in (("full", None), ("adapter", LORA)):
        causal_lm_spec(str(model_directory), lora=lora).build().save_to_path(tmp_path / name)

    def restore(name: str, lora: LoraSettings | None) -> None:
        causal_lm_spec(str(model_directory), lora=lora).build().restore_from_path(tmp_path / name)

    with pytest.raises(ValueError, match=r"holds no LoRA adapter: there is no adapter_config\.json"):
        restore("full", LORA)
    with pytest.raises(ValueError, match=r"holds a LoRA adapter and not the model below it.*--merge"):
        restore("adapter", None)
    with pytest.raises(ValueError, match=r"lora_rank=4 and lora_alpha=8\.0, the model has 4 and 4"):
        restore("adapter", LoraSettings(rank=4))
    with pytest.raises(ValueError, match="weights do not fit the model"):
        restore("adapter", LORA._replace(targets=["q_proj"]))


@pytest.mark.parametrize("targets", [["q_prj"], ["embed_tokens"], ["lm_head"], ["proj"]])
def test_a_target_that_is_no_linear_layer_lists_those_that_are(model_directory: Path, targets: list[str]) -> None:
    with pytest.raises(ValueError, match=rf"'{targets[0]}', which is not a linear layer.*q_proj, k_proj.*down_proj"):
        causal_lm_spec(str(model_directory), lora=LoraSettings(2, targets=targets)).build()


def test_targets_by_name_and_by_full_name(model_directory: Path) -> None:
    module = causal_lm_spec(
        str(model_directory), lora=LoraSettings(2, targets=["q_proj", "model.layers.1.mlp.up_proj"])
    ).build()
    layers = {name.split(".lora_")[0] for name in module.get_state()}
    assert layers == {
        "model.layers.0.self_attn.q_proj",
        "model.layers.1.self_attn.q_proj",
        "model.layers.1.mlp.up_proj",
    }


def test_the_adapter_of_a_bfloat16_model_is_float32(model_directory: Path, tmp_path: Path) -> None:
    # A step of this size is far below a bfloat16's last digit.
    group = build_learner_group(model_directory, lora=LORA, dtype="bfloat16", optimizer="adamw", lr=1e-5)
    before = weights_of(group)
    assert {array.dtype for array in before.values()} == {np.dtype("float32")}
    group.update(batch=batch_of(random_rows(8)), timesteps={})
    moved = max_difference(before, weights_of(group))
    assert 0 < moved < 1.1e-5
    assert _module(group).lm.get_input_embeddings().weight.dtype == torch.bfloat16
    group.save_to_path(tmp_path / "checkpoint")
    restored = build_learner_group(model_directory, lora=LORA, dtype="bfloat16", optimizer="adamw", lr=1e-5)
    restored.restore_from_path(tmp_path / "checkpoint")
    assert max_difference(weights_of(group), weights_of(restored)) == 0


def test_an_algorithm_trains_delivers_restores_and_exports_an_adapter(ray_cluster: None, tmp_path: Path) -> None:
    base = embedded_model_path("EZPoints")
    algo = (
        small_config(groups_per_iteration=2, kl_coeff=0.01, lr=1e-2)
        .language_model(lora_rank=8, lora_alpha=16)
        .generation(max_response_tokens=16)
        .build_algo()
    )
    try:
        for _ in range(2):
            result = algo.train()
        # Sampler and learner run the same adapter over the same base: what is left is float32 rounding.
        assert result["learners"]["default_policy"]["sampler_learner_gap_max"] < 1e-4
        assert result["weight_delivery"]["weights_probe_gap_max"] <= 1e-5
        state = algorithm_weights(algo)
        assert all(is_adapter_weight(name) for name in state)
        assert result["weight_delivery"]["bytes"] == sum(array.nbytes for array in state.values())
        assert largest_difference(state, algo.env_runner.module.get_state()) == 0
        learner_lm = algo.learner_group._learner.module[DEFAULT_MODULE_ID].lm
        for lm in (learner_lm, algo.env_runner.module.lm):
            _assert_base_is_that_of(lm, base)
        prompts = PROMPTS % learner_lm.config.vocab_size
        trained = _logits(learner_lm, prompts)
        assert (trained - _logits(load_causal_lm(base), prompts)).abs().max() > 1e-2
        checkpoint = algo.save_to_path(tmp_path / "checkpoint")
    finally:
        algo.stop()

    restored = GiGPO.from_checkpoint(checkpoint)
    try:
        assert largest_difference(state, algorithm_weights(restored)) == 0
        assert largest_difference(state, restored.env_runner.module.get_state()) == 0
    finally:
        restored.stop()

    outputs = {}
    for name, options in (("adapter", []), ("merged", ["--merge"])):
        result = CliRunner().invoke(app, ["export", checkpoint, str(tmp_path / name), *options])
        assert result.exit_code == 0, result.output
        outputs[name] = result.stdout
        # Whoever may read one file may read all.
        assert len({file.stat().st_mode for file in (tmp_path / name).iterdir()}) == 1
    assert "adapter: " in outputs["adapter"] and "model: " in outputs["merged"]

    by_peft = peft.PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base), str(tmp_path / "adapter"))
    merged = AutoModelForCausalLM.from_pretrained(tmp_path / "merged")
    torch.testing.assert_close(_logits(by_peft, prompts), trained, rtol=0, atol=1e-5)
    # Sums in another order: W·x + B·A·x against (W + B·A)·x.
    torch.testing.assert_close(_logits(merged, prompts), trained, rtol=1e-5, atol=1e-5)
    validate_model_directory(tmp_path / "merged")
    assert AutoTokenizer.from_pretrained(tmp_path / "merged").chat_template

    again = CliRunner().invoke(app, ["export", checkpoint, str(tmp_path / "merged")])
    assert again.exit_code == 2
    assert "merged exists and is not an empty folder" in again.stderr
    nowhere = CliRunner().invoke(
        app, ["export", checkpoint, str(tmp_path / "other"), "--merge", "--model-path", "/nowhere"]
    )
    assert nowhere.exit_code == 2
    assert "/nowhere, is not there: name its folder with --model-path" in nowhere.stderr


def test_a_fully_trained_model_is_exported_as_it_is(ray_cluster: None, tmp_path: Path) -> None:
    algo = small_config(groups_per_iteration=2, group_size=2).generation(max_response_tokens=8).build_algo()
    try:
        state = algorithm_weights(algo)
        checkpoint = algo.save_to_path(tmp_path / "checkpoint")
    finally:
        algo.stop()
    for name, options in (("plain", []), ("merged", ["--merge"])):
        result = CliRunner().invoke(app, ["export", checkpoint, str(tmp_path / name), "--json", *options])
        assert result.exit_code == 0, result.output
        written = {"module": "default_policy", "kind": "model", "path": str(tmp_path / name)}
        assert json.loads(result.stdout) == [written]
        saved = load_file(tmp_path / name / "model.safetensors")
        assert all((saved[key].numpy() == array).all() for key, array in state.items())
    for target, options, message in (
        (tmp_path / "other", ["--merge", "--model-path", "/nowhere"], "has no LoRA adapter"),
        (Path(checkpoint) / "out", [], "is in the checkpoint, which stays as it is"),
    ):
        refused = CliRunner().invoke(app, ["export", checkpoint, str(target), *options])
        assert refused.exit_code == 2
        assert message in refused.stderr
        assert not target.exists()
