"""What the `vllm` engine is started with, and the files that its weights travel in; needs no vLLM."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open

from rllib_gigpo.inference.vllm_options import VLLMSettings, engine_arguments
from rllib_gigpo.inference.weight_files import check_version, weights_file
from rllib_gigpo.rl_modules.weights import tensor_to_array

pytestmark = pytest.mark.unit

KNOWN = ("max_num_seqs", "max_model_len", "enforce_eager", "gpu_memory_utilization")


def arguments_of(*, on_cpu: bool = False, **settings: Any) -> dict[str, Any]:
    made = VLLMSettings("/model", "bfloat16", max_tokens=300, max_requests=16, **settings)
    return engine_arguments(made, on_cpu=on_cpu, known=KNOWN)


def test_log_probs_are_of_what_was_sampled_from_and_options_go_before_defaults() -> None:
    arguments = arguments_of(options={"max_num_seqs": 4, "gpu_memory_utilization": 0.5})
    assert arguments["logprobs_mode"] == "processed_logprobs"
    assert (arguments["max_model_len"], arguments["max_num_seqs"]) == (300, 4)
    assert arguments["gpu_memory_utilization"] == 0.5
    assert arguments["distributed_executor_backend"] == "uni"
    assert "enable_lora" not in arguments and "enable_chunked_prefill" not in arguments


def test_on_the_cpu_prompts_stay_whole_and_the_cache_does_not_take_the_machine(tmp_path: Path) -> None:
    def arguments_for(**config: int) -> dict[str, Any]:
        (tmp_path / "config.json").write_text(json.dumps(config))
        settings = VLLMSettings(str(tmp_path), "bfloat16", max_tokens=128, max_requests=3)
        return engine_arguments(settings, on_cpu=True, known=KNOWN)

    small = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 1, "hidden_size": 128}
    assert arguments_for(**small)["enable_chunked_prefill"] is False
    # Keys and values of 2 layers, a head of 32 numbers, 2 bytes each; 256 tokens for each of 4 requests.
    assert arguments_for(**small)["kv_cache_memory_bytes"] == 2 * 2 * 32 * 2 * 256 * 4
    assert arguments_for(**{**small, "num_hidden_layers": 10_000})["kv_cache_memory_bytes"] == 2**30
    assert arguments_for(**{**small, "num_hidden_layers": 100_000})["kv_cache_memory_bytes"] > 2**32
    assert arguments_for()["kv_cache_memory_bytes"] == 2**30


@pytest.mark.parametrize(("rank", "served"), [(1, 1), (4, 8), (32, 32), (300, 320)])
def test_room_for_adapters_is_the_smallest_rank_that_vllm_offers(rank: int, served: int) -> None:
    arguments = arguments_of(lora_rank=rank, num_adapters=2)
    assert arguments["max_lora_rank"] == served
    assert (arguments["max_loras"], arguments["max_cpu_loras"]) == (2, 4)


@pytest.mark.parametrize(("lora_rank", "adapts", "enabled"), [(None, True, False), (4, False, False), (4, True, True)])
def test_a_model_of_images_is_ours_and_its_tower_has_adapters_where_they_are_trained(
    lora_rank: int | None, adapts: bool, enabled: bool
) -> None:
    arguments = arguments_of(lora_rank=lora_rank, architecture="PilQwen", adapts_vision_tower=adapts)
    assert arguments["hf_overrides"] == {"architectures": ["PilQwen"]}
    assert arguments["enable_tower_connector_lora"] is enabled
    assert arguments["mm_device_do_normalize"] is False
    assert "hf_overrides" not in arguments_of()


def test_several_gpus_are_workers_of_the_env_runner_itself() -> None:
    known = (*KNOWN, "tensor_parallel_size")
    settings = VLLMSettings("/model", "bfloat16", 300, 16, options={"tensor_parallel_size": 2})
    assert engine_arguments(settings, on_cpu=False, known=known)["distributed_executor_backend"] == "mp"


def test_an_unknown_option_names_the_nearest_one() -> None:
    with pytest.raises(ValueError, match=r"has no 'max_num_sqs'; did you mean 'max_num_seqs'\?"):
        arguments_of(options={"max_num_sqs": 4})
    with pytest.raises(ValueError, match=r"'logprobs_mode' cannot be set"):
        arguments_of(options={"logprobs_mode": "raw_logprobs"})


def test_a_file_of_weights_has_their_version_and_types_and_is_gone_afterwards() -> None:
    half = torch.randn(3, 4, generator=torch.Generator().manual_seed(0)).to(torch.bfloat16)
    weights = {"half": tensor_to_array(half), "full": np.arange(5, dtype=np.float32)}
    assert weights["half"].dtype == np.uint16
    with weights_file(weights, 7) as path, safe_open(path, framework="pt") as file:
        assert torch.equal(file.get_tensor("half"), half)
        assert file.get_tensor("full").tolist() == weights["full"].tolist()
        check_version(file.metadata(), 7, str(path))
        with pytest.raises(ValueError, match="holds weights of version 7, expected version 8"):
            check_version(file.metadata(), 8, str(path))
    assert not Path(path).parent.exists()
