"""`rllib plan`: sizes of models, memory of learners and engines, placements, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM
from typer.testing import CliRunner

from rllib_gigpo import registry
from rllib_gigpo.algorithms.gigpo import GiGPOConfig
from rllib_gigpo.cli.config_file import load_config_file
from rllib_gigpo.cli.example_header import example_header
from rllib_gigpo.cli.main import app
from rllib_gigpo.env_adapters import embedded_model_path
from rllib_gigpo.planning import PlanRefusedError, plan
from rllib_gigpo.planning.memory import GIB, TrainingSettings, learner_memory, offloaded_bytes, saved_bytes_per_token
from rllib_gigpo.planning.model_dimensions import PUBLIC_MODELS, model_dimensions
from tests.tiny_models import save_tiny_vlm

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]
PAPERS = [name for name in registry.example_names() if example_header(name).kind == "paper"]
SETTINGS = TrainingSettings(
    model=PUBLIC_MODELS["Qwen2.5-1.5B-Instruct"],
    bytes_per_weight=4,
    lora_rank=None,
    has_adam=True,
    has_reference=True,
    has_critic=False,
    is_distributed=False,
    micro_batch_tokens=2560,
    max_tokens=2560,
    response_share=0.2,
)


def small_config(model_type: str) -> Any:
    return AutoConfig.for_model(
        model_type,
        vocab_size=100,
        hidden_size=64,
        intermediate_size=160,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        tie_word_embeddings=model_type == "qwen2",
    )


@pytest.mark.parametrize("model_type", ["qwen2", "qwen3", "llama"])
def test_the_weights_of_a_model_directory_are_counted(model_type: str, tmp_path: Path) -> None:
    config = small_config(model_type)
    config.save_pretrained(tmp_path)
    with torch.device("meta"):
        lm = AutoModelForCausalLM.from_config(config)
    found = model_dimensions(tmp_path)
    assert found.num_parameters() == sum(parameter.numel() for parameter in lm.parameters())


@pytest.mark.parametrize("model_type", ["qwen2_vl", "qwen2_5_vl", "qwen3_vl"])
def test_a_vision_tower_is_counted_and_a_frozen_one_takes_its_weights_alone(model_type: str, tmp_path: Path) -> None:
    directory = save_tiny_vlm(tmp_path, model_type=model_type)
    found = model_dimensions(directory)
    tensors = load_file(directory / "model.safetensors")
    assert found.vision == sum(tensor.numel() for name, tensor in tensors.items() if "visual." in name)
    assert found.num_parameters() == sum(tensor.numel() for tensor in tensors.values())
    trained = learner_memory(replace(SETTINGS, model=found))
    frozen = learner_memory(replace(SETTINGS, model=found, freezes_vision_tower=True))
    # In float32: no gradients and no moments.
    assert trained.weights == frozen.weights
    assert trained.gradients - frozen.gradients == 4 * found.vision
    assert trained.optimizer - frozen.optimizer == 8 * found.vision


def test_an_offloaded_reference_takes_the_room_of_activations_and_host_memory() -> None:
    small = replace(SETTINGS, micro_batch_tokens=256, max_tokens=256)
    on_gpu, offloaded = (learner_memory(replace(small, offloads_reference=offload)) for offload in (False, True))
    weights = 4 * SETTINGS.model.num_parameters()
    assert on_gpu.reference == weights > on_gpu.activations
    assert on_gpu.total - offloaded.total == on_gpu.activations
    large = replace(SETTINGS, offloads_reference=True)
    assert learner_memory(large).reference == 0
    spread = replace(SETTINGS, offloads_reference=True, shards=4)
    assert learner_memory(spread).reference == 0
    assert offloaded_bytes(spread) == -(-weights // 4)
    assert offloaded_bytes(large) == weights
    for nothing in ({"offloads_reference": False}, {"has_reference": False}, {"lora_rank": 8}):
        assert offloaded_bytes(replace(SETTINGS, **{"offloads_reference": True, **nothing})) == 0


@pytest.mark.parametrize(
    ("name", "billions"),
    # As their authors state them.
    [
        ("Qwen2.5-1.5B-Instruct", 1.54),
        ("Qwen2.5-7B-Instruct", 7.61),
        ("Llama-3.2-1B-Instruct", 1.24),
        ("Qwen2.5-VL-3B-Instruct", 3.75),
    ],
)
def test_public_models_are_known_by_name(name: str, billions: float) -> None:
    assert model_dimensions(f"/nowhere/{name}").num_parameters() / 1e9 == pytest.approx(billions, abs=0.01)


def test_an_unknown_model_names_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"has no config.json.*did you mean Qwen2.5-7B-Instruct\?"):
        model_dimensions("models/qwen2.5-7b-Instruct")


@pytest.mark.parametrize("model_type", ["qwen2", "qwen3", "llama"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_bytes_of_a_backward_pass_are_those_that_autograd_keeps(model_type: str, dtype: torch.dtype) -> None:
    """Of one more layer; the rest of the model is in the logits."""
    rows, length = 2, 32

    def kept(layers: int) -> int:
        config = small_config(model_type)
        config.num_hidden_layers, config.layer_types = layers, ["full_attention"] * layers
        lm = AutoModelForCausalLM.from_config(config).to(dtype)
        weights = {parameter.untyped_storage().data_ptr() for parameter in lm.parameters()}
        saved: dict[int, torch.Tensor] = {}  # holds the tensors, or their addresses would be used again

        def pack(tensor: torch.Tensor) -> torch.Tensor:
            saved[tensor.untyped_storage().data_ptr()] = tensor
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            lm(input_ids=torch.ones(rows, length, dtype=torch.int64), use_cache=False, logits_to_keep=1)
        return sum(t.untyped_storage().nbytes() for at, t in saved.items() if at not in weights)

    config = small_config(model_type)
    per_layer = (kept(3) - kept(2)) / (rows * length)
    dimensions = replace(
        PUBLIC_MODELS["Qwen2.5-0.5B-Instruct"],
        layers=1,
        hidden=config.hidden_size,
        intermediate=config.intermediate_size,
        heads=4,
        kv_heads=2,
        head_size=16,
        has_head_norms=model_type == "qwen3",
    )
    estimate = saved_bytes_per_token(dimensions, dtype.itemsize, with_adapter=False)
    # The attention's own buffers depend on the kernel.
    assert estimate == pytest.approx(per_layer, rel=0.1)


def test_what_a_learner_holds_follows_from_the_config() -> None:
    weights = 4 * SETTINGS.model.num_parameters()
    whole = learner_memory(SETTINGS)
    assert (whole.weights, whole.gradients, whole.optimizer, whole.reference) == (
        weights,
        weights,
        2 * weights,
        weights,
    )
    several = learner_memory(replace(SETTINGS, is_distributed=True, has_critic=True, has_reference=False))
    assert (several.weights, several.gradients, several.reference) == (2 * weights, 4 * weights, 0)
    spread = learner_memory(replace(SETTINGS, is_distributed=True, shards=4))
    assert spread.weights == spread.gradients == -(-weights // 4)
    assert 0 < spread.gathered < 4 * weights
    adapter = 4 * SETTINGS.model.num_adapter_parameters(16)
    with_lora = learner_memory(replace(SETTINGS, lora_rank=16, bytes_per_weight=2))
    assert (with_lora.weights, with_lora.reference) == (adapter + weights // 2, 0)
    assert (with_lora.gradients, with_lora.optimizer) == (adapter, 2 * adapter)
    recomputed = learner_memory(replace(SETTINGS, recomputes_layers=True))
    assert recomputed.activations < whole.activations / 10
    assert learner_memory(replace(SETTINGS, micro_batch_tokens=2 * 2560)).activations == 2 * whole.activations


def gigpo(model: str = "Qwen2.5-1.5B-Instruct", **training: Any) -> GiGPOConfig:
    return (
        GiGPOConfig()
        .environment("ALFWorld")
        .language_model(model_path=f"models/{model}")
        .generation(engine="vllm")
        .training(**{"kl_coeff": 0.01, "micro_batch_tokens": 2560, **training})
    )


def placed(config: Any, learners: int, of_learner: float, runners: int, of_runner: float) -> Any:
    """With these numbers of learners and env runners, and the GPUs of each."""
    config.learners(num_learners=learners, num_gpus_per_learner=of_learner)
    return config.env_runners(num_env_runners=runners, num_gpus_per_env_runner=of_runner)


def wide() -> GiGPOConfig:
    """Engines over two GPUs each."""
    return gigpo().generation(engine_options={"tensor_parallel_size": 2})


@pytest.mark.parametrize(
    ("gpus", "learners", "runners"),
    [(3, 1, 1), (4, 2, 1), (8, 4, 2)],
)
def test_engines_over_several_gpus_get_as_many(gpus: int, learners: int, runners: int) -> None:
    found = plan(wide(), num_gpus=gpus, gpu_memory_gib=80)
    settings = found.settings
    assert (settings["num_learners"], settings["num_env_runners"]) == (learners, runners)
    assert settings["num_gpus_per_env_runner"] == settings["engine_options"]["tensor_parallel_size"] == 2
    assert found.engine.weights == plan(gigpo(), num_gpus=gpus, gpu_memory_gib=80).engine.weights / 2


def test_only_vllm_spreads_a_model_over_the_gpus_of_an_env_runner() -> None:
    """The `hf` engine uses one of them."""
    several = placed(gigpo().generation(engine="hf"), 1, 1, 1, 2).env_runners(num_envs_per_env_runner=8)
    found = plan(several, num_gpus=3, gpu_memory_gib=80, placement="config")
    assert found.engine.weights == 4 * found.num_parameters


def test_learners_and_engines_that_do_not_fit_on_one_gpu_are_not_colocated() -> None:
    found = plan(placed(gigpo(), 1, 0.6, 1, 0.6), num_gpus=2, gpu_memory_gib=80, placement="config")
    assert found.placement == "split" and found.fullest_gpu < found.learner.total + found.engine.total


def test_sharded_learners_are_placed_where_there_are_several() -> None:
    config = gigpo(micro_batch_tokens=512).language_model(gradient_checkpointing=True).learners(sharding="fsdp")
    found = plan(config, num_gpus=2, gpu_memory_gib=80)
    assert (found.placement, found.settings["num_learners"]) == ("colocated", 2)


def test_an_engine_has_room_for_the_longer_responses_of_an_evaluation() -> None:
    config = gigpo().evaluation(evaluation_config={"max_response_tokens": 4096})
    long, short = (plan(one, num_gpus=2, gpu_memory_gib=80).engine for one in (config, gigpo()))
    assert long.cache_per_request > short.cache_per_request


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (GiGPOConfig(), r"GiGPOConfig has no model_path: set language_model\(model_path=…\)"),
        (gigpo().language_model(lora_rank=-8), "lora_rank=-8 must be an integer of at least 1"),
        (gigpo(micro_batch_tokens=0), "micro_batch_tokens=0 must be an integer of at least 1"),
        (gigpo().learners(sharding="fspd"), "sharding='fspd' is unknown; choose one of None, 'fsdp'"),
        (gigpo().language_model(model_dtype="fp32"), "model_dtype='fp32' is unknown"),
        (
            gigpo().generation(engine_options={"tensor_parallel_size": "2"}),
            "tensor_parallel_size='2' must be an integer of at least 1",
        ),
        (
            gigpo().multi_agent(policies={"a", "b"}, policy_mapping_fn=lambda *args, **kwargs: "a"),
            r"policies=\['a', 'b'\]: the memory of several models is not estimated",
        ),
    ],
)
def test_a_config_that_no_machine_helps_is_refused_by_its_key(config: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plan(config, num_gpus=2, gpu_memory_gib=80)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", r"config\.json cannot be read"),
        ('{"num_hidden_layers": 2}', "has no 'num_attention_heads': its size cannot be told"),
        ('{"num_experts": 128}', "num_experts=128: mixtures of experts are not estimated"),
    ],
)
def test_a_model_whose_size_cannot_be_told_is_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(ValueError, match=message):
        model_dimensions(tmp_path)


def test_a_config_without_gpus_is_placed() -> None:
    split = plan(gigpo(), num_gpus=2, gpu_memory_gib=80)
    assert (split.placement, split.settings["num_learners"], split.settings["num_env_runners"]) == ("split", 1, 1)
    one = plan(gigpo(), num_gpus=1, gpu_memory_gib=80)
    assert one.placement == "colocated"
    # More than a half for one of them: Ray cannot put two learners on one GPU.
    assert one.settings["num_gpus_per_learner"] < 0.5 < one.settings["num_gpus_per_env_runner"]
    assert one.fullest_gpu <= one.gpu_memory
    assert one.settings["engine_options"]["gpu_memory_utilization"] < 0.6
    weights = 4 * one.num_parameters
    assert (one.delivery_bytes, one.shared_memory_bytes) == (weights, 2 * weights)


@pytest.mark.parametrize(
    ("config", "gpus", "memory", "message"),
    [
        (gigpo("Qwen2.5-7B-Instruct"), 4, 80, r"weights 28.4.*lora_rank=64.*num_learners=3, sharding='fsdp'"),
        (gigpo(micro_batch_tokens=16_384), 2, 80, r"gradient_checkpointing=True\) it needs"),
        (gigpo(micro_batch_tokens=200_000), 2, 80, r"set training\(micro_batch_tokens=\d+\)"),
        (gigpo().env_runners(num_env_runners=2, num_gpus_per_env_runner=1), 1, 24, "leave the GPUs to nobody"),
        (
            gigpo()
            .env_runners(num_env_runners=2, num_gpus_per_env_runner=1)
            .learners(num_learners=1, num_gpus_per_learner=1),
            2,
            80,
            "asks for 3 GPUs, and there are 2",
        ),
        (
            gigpo()
            .env_runners(num_env_runners=2, num_gpus_per_env_runner=0.5)
            .learners(num_learners=2, num_gpus_per_learner=0.5),
            2,
            80,
            "two learners on one GPU",
        ),
        (gigpo().generation(engine_options={"gpu_memory_utilization": 0.1}), 2, 80, "an engine needs"),
        (placed(gigpo(), 1, 1, 2, 0), 4, 80, "num_gpus_per_env_runner=0 has engines on CPUs"),
        (placed(gigpo(), 1, 0.5, 2, 0.25), 1, 80, "num_gpus_per_env_runner=0.25 lets Ray put two engines on one GPU"),
        (placed(wide(), 1, 1, 1, 1), 2, 80, r"= 2 needs as many GPUs, but num_gpus_per_env_runner=1: set .*=2\)"),
        (placed(gigpo().learners(sharding="fsdp"), 1, 1, 1, 1), 2, 80, r"num_learners=1: set .* to at least 2"),
        (wide(), 2, 80, r"= 2 an engine shares no GPU with a learner, and splitting takes at least 3 GPUs\.$"),
        (
            gigpo("Qwen2.5-7B-Instruct")
            .env_runners(num_env_runners=1, num_gpus_per_env_runner=0.51)
            .learners(num_learners=1, num_gpus_per_learner=0.49),
            1,
            8,
            "a smaller model, or larger GPUs",
        ),
    ],
)
def test_what_cannot_fit_is_refused_with_what_would_help(config: Any, gpus: int, memory: float, message: str) -> None:
    placement = "config" if config.num_env_runners else "split"
    with pytest.raises(PlanRefusedError, match=message):
        plan(config, num_gpus=gpus, gpu_memory_gib=memory, placement=placement)  # type: ignore[arg-type]


def test_the_micro_batch_that_a_refusal_names_fits() -> None:
    with pytest.raises(PlanRefusedError) as refused:
        plan(gigpo(micro_batch_tokens=200_000), num_gpus=2, gpu_memory_gib=80)
    tokens = int(str(refused.value).partition("micro_batch_tokens=")[2].partition(")")[0])
    assert plan(gigpo(micro_batch_tokens=tokens), num_gpus=2, gpu_memory_gib=80).learner.total <= 80 * GIB

    def beside_an_engine(micro_batch_tokens: int) -> Any:
        config = gigpo(micro_batch_tokens=micro_batch_tokens)
        return config.language_model(gradient_checkpointing=True)

    # There less fits.
    with pytest.raises(PlanRefusedError, match=r"beside an engine's 9\.4 GiB: set training") as refused:
        plan(beside_an_engine(40_960), num_gpus=1, gpu_memory_gib=56)
    tokens = int(str(refused.value).partition("micro_batch_tokens=")[2].partition(")")[0])
    found = plan(beside_an_engine(tokens), num_gpus=1, gpu_memory_gib=56)
    assert found.is_colocated and found.fullest_gpu <= 56 * GIB


@pytest.mark.parametrize("example", PAPERS)
def test_a_setting_of_the_papers_fits_their_machine_or_says_what_would(example: str) -> None:
    """A policy and a critic of 7 billion parameters do not fit GPUs of 80 GB where learners hold whole copies."""
    (experiment,) = load_config_file(ROOT / "tuned_examples" / f"{example}.py")
    header = example_header(example)
    hardware = header.hardware
    gpus = int(hardware.split()[0])
    if "whole copies" in hardware:  # critics are not spread over learners
        assert header.algorithm == "ppo"
        with pytest.raises(PlanRefusedError, match="lora_rank=64"):
            plan(experiment.config, num_gpus=gpus, gpu_memory_gib=80)
        return
    found = plan(experiment.config, num_gpus=gpus, gpu_memory_gib=80, placement="config")
    assert found.processes.num_gpus == gpus
    assert found.fullest_gpu <= 80 * GIB
    # Of a group, at least, nobody waits.
    assert found.engine.requests_in_cache >= 8


def test_the_command_prints_a_table_or_json_and_refuses() -> None:
    example = str(ROOT / "tuned_examples" / "gigpo" / "alfworld_qwen25_1_5b.py")
    result = CliRunner().invoke(app, ["plan", example, "--gpus", "2", "--gpu-memory", "80"])
    assert result.exit_code == 0, result.output
    assert "none of them was measured on a GPU" in result.stdout
    result = CliRunner().invoke(app, ["plan", example, "--gpus", "2", "--json"])
    (found,) = json.loads(result.stdout).values()
    assert found["placement"] == "split" and not found["is_measured_on_gpus"]
    result = CliRunner().invoke(app, ["plan", example, "--gpus", "2", "--gpu-memory", "24"])
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert line.startswith("Error: Qwen2.5-1.5B-Instruct does not fit 2 GPUs of 24 GiB.")
    result = CliRunner().invoke(app, ["plan", example, "--placement", "anywhere"])
    assert "--placement 'anywhere' must be one of" in result.stderr
    result = CliRunner().invoke(app, ["plan", example, "--gpu-memory", "inf"])
    assert result.exit_code == 2 and "--gpu-memory inf must be a finite number of GiB" in result.stderr


def test_the_tiny_examples_can_be_planned_too() -> None:
    example = str(ROOT / "tuned_examples" / "gigpo" / "ezpoints_text_tiny.py")
    result = CliRunner().invoke(app, ["plan", example, "--gpus", "1", "--json"])
    (found,) = json.loads(result.stdout).values()
    assert found["model"] == embedded_model_path("EZPoints").name
