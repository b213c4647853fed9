"""LoRA adapters (arXiv 2106.09685) inside of a language model: adding, switching off, saving, loading, merging.

Adapters are injected in place, by peft: the model stays the transformers class that it was. Only the adapter is
trained, delivered and saved; the base model is the one at `model_path`, in every process.
"""

from __future__ import annotations

import difflib
import functools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from rllib_gigpo.rl_modules.model_directory import causal_lm_skeleton

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

Targets = Literal["all-linear"] | Sequence[str]

ADAPTER_CONFIG_FILE = "adapter_config.json"
ADAPTER_WEIGHTS_FILE = "adapter_model.safetensors"

_ADAPTER = "default"  # peft's name for the only adapter of a model
_PEFT_PREFIX = "base_model.model."  # of weight names in adapter files


class LoraSettings(NamedTuple):
    """How an adapter is made.

    Attributes:
        rank: r, at least 1.
        alpha: α; the adapter's product is scaled by α / r. None: α = r, a scale of 1.
        targets: "all-linear", every linear layer but the output layer; or names of linear layers, or ends of their
            names, such as "q_proj".
        seed: Of the random half of the adapter; the other half is 0, so that it changes nothing at first.
    """

    rank: int
    alpha: float | None = None
    targets: Targets = "all-linear"
    seed: int = 0


def check_lora_targets(model_path: str | Path, targets: Targets) -> None:
    """Checks `targets` against the layers of a model directory, of which it reads config.json only.

    Raises:
        ValueError: A target is not a linear layer of the model; the message lists those that are.
    """
    if targets != "all-linear":
        _check_targets(targets, _layer_names_of_directory(str(model_path)))


def add_adapter(lm: PreTrainedModel, settings: LoraSettings, *, model_path: str, frozen: Sequence[str] = ()) -> None:
    """Injects an adapter into `lm`, in place; from then on only its weights are trainable. Layers of its parts `frozen`
    get none.

    They are float32 whatever the type of the model: a small step would be rounded away in bfloat16. There is no
    dropout, since the learner's log-probabilities must be the sampler's.

    Raises:
        ValueError: A target is not a linear layer of the model; the message lists those that are.
    """
    import torch
    from peft import LoraConfig, inject_adapter_in_model

    if settings.targets != "all-linear":
        _check_targets(settings.targets, linear_layer_names(lm))
    config = LoraConfig(
        task_type="CAUSAL_LM",
        base_model_name_or_path=model_path,
        r=settings.rank,
        lora_alpha=settings.rank if settings.alpha is None else settings.alpha,
        target_modules="all-linear" if settings.targets == "all-linear" else list(settings.targets),
        exclude_modules="|".join(rf"{re.escape(part)}\..*" for part in frozen) or None,
        lora_dropout=0.0,
        # GPT-2's Conv1D stores its weight transposed; peft sets the flag itself, and warns where it was not set.
        fan_in_fan_out=any(_is_conv1d(module) for module in lm.modules()),
    )
    # peft draws from torch's global generator.
    with torch.device("cpu"), torch.random.fork_rng(devices=[]), _stand_ins_on_cpu(lm):
        torch.default_generator.manual_seed(settings.seed)
        inject_adapter_in_model(config, lm, adapter_name=_ADAPTER)
    for name, parameter in lm.named_parameters():
        if is_adapter_weight(name):
            parameter.data = parameter.data.float()


@contextmanager
def _stand_ins_on_cpu(lm: PreTrainedModel) -> Iterator[None]:
    """Within it weights on the meta device have others of their shapes on the CPU in their place, which take no memory:
    peft puts an adapter where its layer is, and on the meta device its random half would be lost."""
    import torch

    held = [(part, name, weight) for part in lm.modules() for name, weight in part._parameters.items()]
    held = [(part, name, weight) for part, name, weight in held if weight is not None and weight.is_meta]
    for part, name, weight in held:
        stand_in = torch.zeros((), dtype=weight.dtype).expand(weight.shape)
        part._parameters[name] = torch.nn.Parameter(stand_in, weight.requires_grad)
    try:
        yield
    finally:
        for part, name, weight in held:
            weight.requires_grad_(part._parameters[name].requires_grad)
            part._parameters[name] = weight


def has_adapter(lm: torch.nn.Module) -> bool:
    """Whether `add_adapter` was called on it."""
    return hasattr(lm, "peft_config")


def is_adapter_weight(name: str) -> bool:
    """Whether a parameter of a model with an adapter, of this name, belongs to the adapter."""
    return f".lora_A.{_ADAPTER}." in name or f".lora_B.{_ADAPTER}." in name


def base_name(name: str) -> str:
    """The name that a weight has without an adapter, whichever layers that goes to."""
    return name.replace(".base_layer.", ".")


@contextmanager
def adapter_disabled(lm: PreTrainedModel) -> Iterator[None]:
    """Within the block `lm` computes what its base model does; nothing changes for a model without an adapter."""
    layers = [layer for layer in lm.modules() if has_adapter(lm) and _is_adapted(layer)]
    was_trainable = {name for name, parameter in lm.named_parameters() if parameter.requires_grad}

    def enable(enabled: bool) -> None:
        for layer in layers:
            layer.enable_adapters(enabled)
        # peft takes gradients off while an adapter is off, and back on for all of it. A sharded network would settle on
        # what has gradients in its first pass.
        if layers:
            for name, parameter in lm.named_parameters():
                parameter.requires_grad_(name in was_trainable)

    enable(False)
    try:
        yield
    finally:
        enable(True)


def save_adapter(lm: PreTrainedModel, directory: str | Path, tensors: Mapping[str, torch.Tensor]) -> None:
    """Writes a PEFT adapter directory, which `peft.PeftModel.from_pretrained(base, directory)` reads.

    Args:
        lm: A model with an adapter.
        directory: Created where it does not exist.
        tensors: Weights of the adapter by their names in `lm`, on the CPU.
    """
    from safetensors.torch import save_file

    Path(directory).mkdir(parents=True, exist_ok=True)
    config = lm.peft_config[_ADAPTER]
    # As trainers of peft do: a loaded adapter is meant to be used, not trained.
    inference, config.inference_mode = config.inference_mode, True
    config.save_pretrained(str(directory))
    config.inference_mode = inference
    save_file(
        {_file_name(name): tensor.contiguous() for name, tensor in tensors.items()},
        Path(directory) / ADAPTER_WEIGHTS_FILE,
        metadata={"format": "pt"},
    )


def load_adapter_weights(lm: PreTrainedModel, directory: str | Path) -> dict[str, torch.Tensor]:
    """Weights of a PEFT adapter directory by their names in `lm`, which has an adapter.

    Raises:
        ValueError: There is none in `directory`, or its scale α / r differs; its names and shapes are not checked.
    """
    from safetensors.torch import load_file

    saved = read_adapter_config(directory)
    own = lm.peft_config[_ADAPTER]
    if (saved["r"], saved["lora_alpha"]) != (own.r, own.lora_alpha):
        raise ValueError(
            f"the adapter in {directory} has lora_rank={saved['r']} and lora_alpha={saved['lora_alpha']}, the model "
            f"has {own.r} and {own.lora_alpha}: set language_model(lora_rank=…, lora_alpha=…) to the former"
        )
    names = {_file_name(name): name for name, _ in lm.named_parameters() if is_adapter_weight(name)}
    tensors = load_file(Path(directory) / ADAPTER_WEIGHTS_FILE)
    return {names.get(name, name): tensor for name, tensor in tensors.items()}


def read_adapter_config(directory: str | Path) -> dict[str, Any]:
    """adapter_config.json. Raises ValueError where `directory` is no complete adapter directory."""
    for name in (ADAPTER_CONFIG_FILE, ADAPTER_WEIGHTS_FILE):
        if not (Path(directory) / name).is_file():
            raise ValueError(f"{directory} holds no LoRA adapter: there is no {name} in it")
    return json.loads((Path(directory) / ADAPTER_CONFIG_FILE).read_text(encoding="utf-8"))


def merged_model(base: PreTrainedModel, directory: str | Path) -> PreTrainedModel:
    """`base` with the adapter of a PEFT directory added to its weights, for good and in place."""
    from peft import PeftModel

    return PeftModel.from_pretrained(base, str(directory)).merge_and_unload(safe_merge=True)


def linear_layer_names(lm: PreTrainedModel) -> list[str]:
    """Full names of the layers that an adapter can go to: linear ones, of which none shares its weight with the input
    embedding: merging an adapter of the output layer would change that as well."""
    import torch

    embedding = lm.get_input_embeddings().weight
    # On the meta device ties are a matter of the config alone.
    head = lm.get_output_embeddings() if lm.config.get_text_config().tie_word_embeddings else None
    return [
        name
        for name, layer in lm.named_modules()
        if (isinstance(layer, torch.nn.Linear) or _is_conv1d(layer))
        and layer is not head
        and layer.weight is not embedding
    ]


def _check_targets(targets: Targets, layers: Sequence[str]) -> None:
    ends = list(dict.fromkeys(name.rsplit(".", 1)[-1] for name in layers))
    if not isinstance(targets, list | tuple) or not targets:
        raise ValueError(f"lora_targets is {targets!r}; it must be 'all-linear' or a list of layers out of {ends}")
    for target in targets:
        if not any(name == target or name.endswith(f".{target}") for name in layers):
            nearest = difflib.get_close_matches(str(target), ends, n=1)
            hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
            raise ValueError(
                f"lora_targets has {target!r}, which is not a linear layer of the model.{hint} Its linear layers: "
                f"{', '.join(ends)}; the full name of one: {layers[0]}"
            )


@functools.cache
def _layer_names_of_directory(model_path: str) -> tuple[str, ...]:
    return tuple(linear_layer_names(causal_lm_skeleton(model_path)))


def _file_name(name: str) -> str:
    """The name of a weight in an adapter file."""
    return _PEFT_PREFIX + name.replace(f".{_ADAPTER}.", ".")


def _is_adapted(layer: torch.nn.Module) -> bool:
    from peft.tuners.tuners_utils import BaseTunerLayer

    return isinstance(layer, BaseTunerLayer)


def _is_conv1d(layer: torch.nn.Module) -> bool:
    from transformers.pytorch_utils import Conv1D

    return isinstance(layer, Conv1D)
