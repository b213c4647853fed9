"""Model directories in the Hugging Face layout: checked before training starts, loaded without running foreign code."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rllib_gigpo.broken_packages import check_torchvision

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

DtypeName = Literal["float32", "bfloat16", "float16"]
DTYPE_NAMES = ("float32", "bfloat16", "float16")

# Say how images and videos become what a model reads; models of text alone have none of them.
_PROCESSOR_FILES = ("preprocessor_config.json", "processor_config.json", "video_preprocessor_config.json")
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model")


def validate_model_directory(path: str | Path) -> None:
    """Checks that `path` holds a causal language model that can be trained: config, tokenizer, chat template, weights.

    Cheap: it looks at files and imports neither torch nor transformers.

    Raises:
        ValueError: Something is missing; the message names the path, what is missing and the fix.
    """
    directory = Path(path)
    if not directory.is_dir():
        raise ValueError(
            f"model_path {str(path)!r} is not a directory. Models are read from disk only; download one with "
            "`hf download MODEL_ID --local-dir DIRECTORY` and give that directory"
        )
    _check_config(directory)
    if not any((directory / name).is_file() for name in _TOKENIZER_FILES):
        raise ValueError(
            f"model directory {directory} has no tokenizer ({', '.join(_TOKENIZER_FILES)}); "
            "write one with `tokenizer.save_pretrained(directory)`"
        )
    if not _has_chat_template(directory):
        raise ValueError(
            f"the tokenizer in {directory} has no chat template, which turns an observation into a prompt; set "
            "`tokenizer.chat_template` and save it again, or put a chat_template.jinja into the directory"
        )
    _check_weights(directory)


def validate_weights_directory(path: str | Path) -> None:
    """Checks that `path` holds a model's config and weights, in files that run no code when they are read.

    Raises:
        ValueError: Something is missing; the message names the path, what is missing and the fix.
    """
    _check_config(Path(path))
    _check_weights(Path(path))


def load_tokenizer(path: str | Path) -> PreTrainedTokenizerBase:
    """The tokenizer of a model directory: pads on the left, with the end-of-sequence token where it has no pad token.

    Raises:
        ValueError: It has neither a pad nor an end-of-sequence token.
        ImportError: A broken torchvision (see `check_torchvision`).
    """
    check_torchvision()
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(path), trust_remote_code=False, local_files_only=True)
    tokenizer.padding_side = "left"
    if tokenizer.pad_token_id is None:
        if tokenizer.eos_token is None:
            raise ValueError(
                f"the tokenizer in {path} has neither a pad_token nor an eos_token; set one and save it again"
            )
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def load_causal_lm(
    path: str | Path,
    *,
    dtype: DtypeName = "float32",
    attn_implementation: str | None = None,
    allow_unexpected: bool = True,
) -> PreTrainedModel:
    """The language model of a model directory, on the CPU, in training mode, without dropout; of a vision-language
    model, with its vision tower.

    Within `torch.device("meta")` its parameters are on the meta device, to be read later by those who then have the
    right part of them (see `rllib_gigpo.rl_modules.sharded_network.read_missing_weights`). Buffers that are in no file
    have their values on the CPU. A model that cannot be read in parts is read here and now, whole.

    Args:
        path: The model directory.
        dtype: Type of every weight: "float32", "bfloat16" or "float16".
        attn_implementation: "eager", "sdpa", "flash_attention_2" ...; None leaves the choice to transformers.
        allow_unexpected: Whether the files may hold weights that the model has not, which are left out.

    Raises:
        ValueError: `dtype` is unknown, or the files lack weights of the model, or have them in other shapes, or have
            more than `allow_unexpected` allows.
        ImportError: A broken torchvision (see `check_torchvision`).
    """
    if dtype not in DTYPE_NAMES:
        raise ValueError(f"dtype is {dtype!r}; it must be one of {', '.join(DTYPE_NAMES)}")
    check_torchvision()
    import torch
    from transformers.utils import logging

    options: dict[str, Any] = {} if attn_implementation is None else {"attn_implementation": attn_implementation}
    if torch.get_default_device().type == "meta":
        from rllib_gigpo.rl_modules.weight_files import open_weight_files  # which imports this module

        if open_weight_files(path) is not None:
            lm = causal_lm_skeleton(path, dtype=getattr(torch, dtype), **options)
            _make_buffers(lm)
            _remove_dropout(lm)
            return lm.train()
        with torch.device("cpu"):
            return load_causal_lm(
                path, dtype=dtype, attn_implementation=attn_implementation, allow_unexpected=allow_unexpected
            )
    # Every learner and runner process would draw one into the log.
    logging.disable_progress_bar()
    lm, report = _auto_class(path).from_pretrained(
        str(path),
        dtype=getattr(torch, dtype),
        trust_remote_code=False,
        local_files_only=True,
        use_safetensors=True,
        output_loading_info=True,
        ignore_mismatched_sizes=True,  # for a message that names them
        **options,
    )
    if mismatched := sorted(report["mismatched_keys"]):
        name, of_file, of_model = mismatched[0]
        raise ValueError(
            f"the weights in {path} do not fit config.json: {name} has shape {tuple(of_file)} instead of "
            f"{tuple(of_model)}, and so have {len(mismatched) - 1} more"
        )
    # Transformers fills missing weights with random numbers and only warns.
    if missing := sorted(report["missing_keys"]):
        raise ValueError(f"the weights in {path} lack {missing[:5]} (first five); the files do not fit config.json")
    if (unexpected := sorted(report["unexpected_keys"])) and not allow_unexpected:
        raise ValueError(f"the weights in {path} have {unexpected[:5]} (first five), which the model has not")
    _remove_dropout(lm)
    return lm.train()


def causal_lm_skeleton(path: str | Path, **options: Any) -> PreTrainedModel:
    """The language model of a model directory without its weights: on the meta device, where nothing takes memory and
    nothing can be computed.

    Args:
        path: The model directory.
        options: `dtype` and `attn_implementation`, as transformers' `from_config` takes them.

    Raises:
        ImportError: A broken torchvision (see `check_torchvision`).
    """
    check_torchvision()
    import torch
    from transformers import AutoConfig, GenerationConfig

    config = AutoConfig.from_pretrained(str(path), trust_remote_code=False, local_files_only=True)
    with torch.device("meta"):
        lm = _auto_class(path).from_config(config, trust_remote_code=False, **options)
    if (Path(path) / "generation_config.json").is_file():
        lm.generation_config = GenerationConfig.from_pretrained(str(path), local_files_only=True)
    return lm


def read_model_config(path: str | Path) -> dict[str, Any]:
    """config.json of a model directory. Raises ValueError where it is no JSON object."""
    file = Path(path) / "config.json"
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{file} cannot be read ({error}); save the model again") from error
    if not isinstance(config, dict):
        raise ValueError(f"{file} holds no JSON object; save the model again")
    return config


def copy_processor_files(source: str | Path, target: str | Path) -> None:
    """Copies what says how a vision-language model's images are processed, where there is any, into a directory."""
    for name in _PROCESSOR_FILES:
        if (Path(source) / name).is_file():
            shutil.copyfile(Path(source) / name, Path(target) / name)


def _auto_class(path: str | Path) -> Any:
    """The class of transformers that builds the model of a directory, with its output layer."""
    from transformers import (
        MODEL_FOR_CAUSAL_LM_MAPPING,
        MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING,
        AutoConfig,
        AutoModelForCausalLM,
        AutoModelForImageTextToText,
    )

    config = type(AutoConfig.from_pretrained(str(path), trust_remote_code=False, local_files_only=True))
    # Of a model that has neither, transformers' message is to name the causal language models.
    if config not in MODEL_FOR_CAUSAL_LM_MAPPING and config in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING:
        return AutoModelForImageTextToText
    return AutoModelForCausalLM


def _make_buffers(lm: PreTrainedModel) -> None:
    """Computes the buffers of a model on the meta device that no file has, such as the frequencies of rotary positions,
    on the CPU: in the way of transformers when it loads one, which has to make them too."""
    import torch

    for name, buffer in list(lm.named_non_persistent_buffers()):
        module, _, leaf = name.rpartition(".")
        lm.get_submodule(module).register_buffer(leaf, torch.empty_like(buffer, device="cpu"), persistent=False)
    for weight in lm.state_dict(keep_vars=True).values():
        weight._is_hf_initialized = True
    with torch.device("cpu"):
        lm.initialize_weights()


def _remove_dropout(lm: PreTrainedModel) -> None:
    """With dropout the learner's log-probabilities would not be the sampler's. Rates are in layers and attributes."""
    import torch

    for module in lm.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        for name, value in vars(module).items():
            if name.endswith(("dropout", "dropout_p", "dropout_prob")) and isinstance(value, float):
                setattr(module, name, 0.0)


def _has_chat_template(directory: Path) -> bool:
    if (directory / "chat_template.jinja").is_file() or (directory / "chat_template.json").is_file():
        return True
    tokenizer_config = directory / "tokenizer_config.json"
    if not tokenizer_config.is_file():
        return False
    try:
        return bool(json.loads(tokenizer_config.read_text(encoding="utf-8")).get("chat_template"))
    except ValueError as error:
        raise ValueError(f"{tokenizer_config} is not valid JSON ({error}); save the tokenizer again") from error


def _check_config(directory: Path) -> None:
    if (directory / "adapter_config.json").is_file() and not (directory / "config.json").is_file():
        raise ValueError(
            f"model directory {directory} holds a LoRA adapter and not the model below it; "
            "`rllib export CHECKPOINT OUT --merge` writes a whole model"
        )
    if not (directory / "config.json").is_file():
        raise ValueError(
            f"model directory {directory} has no config.json, so it is not a Hugging Face model; "
            "write one with `model.save_pretrained(directory)`"
        )


def _check_weights(directory: Path) -> None:
    if any(directory.glob("*.safetensors")):
        return
    if any(directory.glob("pytorch_model*.bin")):
        raise ValueError(
            f"model directory {directory} has its weights only as pytorch_model.bin, a pickle that can run any code "
            "when it is loaded; if you trust it, convert it: load it with transformers and call "
            "`model.save_pretrained(directory)`, which writes safetensors"
        )
    raise ValueError(
        f"model directory {directory} has no weights (*.safetensors); "
        "write them with `model.save_pretrained(directory)`, or download the model again"
    )
