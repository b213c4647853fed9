"""A Hugging Face causal language model as an RLlib RLModule."""

from __future__ import annotations

import pathlib
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
import torch
from ray.rllib.core.rl_module.rl_module import RLModule, RLModuleSpec
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule
from ray.rllib.utils.annotations import override

from rllib_gigpo.rl_modules.lora import LoraSettings, add_adapter, has_adapter, load_adapter_weights, save_adapter
from rllib_gigpo.rl_modules.model_directory import (
    DtypeName,
    load_causal_lm,
    load_tokenizer,
    validate_model_directory,
)
from rllib_gigpo.rl_modules.sharded_network import is_sharded
from rllib_gigpo.rl_modules.weights import array_to_tensor, get_weights, set_weights, tensor_to_array
from rllib_gigpo.rl_modules.weights_folder import WeightsFolderRLModule

if TYPE_CHECKING:
    from transformers import PreTrainedModel

MODEL_PATH = "model_path"
DTYPE = "dtype"
ATTN_IMPLEMENTATION = "attn_implementation"
LORA = "lora"
GRADIENT_CHECKPOINTING = "gradient_checkpointing"

# Folder of a module's checkpoint that any program which reads Hugging Face models can open.
HUGGINGFACE_FOLDER = "huggingface"


def causal_lm_spec(
    model_path: str,
    *,
    dtype: DtypeName = "float32",
    attn_implementation: str | None = None,
    lora: LoraSettings | None = None,
    gradient_checkpointing: bool = False,
) -> RLModuleSpec:
    """The spec of a `CausalLMRLModule`; see there for the arguments.

    Raises:
        ValueError: `model_path` is no complete model directory (see `validate_model_directory`).
    """
    validate_model_directory(model_path)
    # RLlib builds no module without spaces; tokens, not spaces, are what this one reads and writes.
    anything = gym.spaces.Text(max_length=1_000_000, min_length=0)
    return RLModuleSpec(
        module_class=CausalLMRLModule,
        observation_space=anything,
        action_space=anything,
        model_config={
            MODEL_PATH: model_path,
            DTYPE: dtype,
            ATTN_IMPLEMENTATION: attn_implementation,
            LORA: None if lora is None else lora._asdict(),
            GRADIENT_CHECKPOINTING: gradient_checkpointing,
        },
    )


class CausalLMRLModule(WeightsFolderRLModule):
    """The policy: a causal language model and its tokenizer, from a model directory.

    Keys of `model_config`:
        model_path: A Hugging Face model directory.
        dtype: "float32" (default), "bfloat16" or "float16": the type of the weights, which are also what the optimizer
            updates; float16 can only sample.
        attn_implementation: Handed to transformers; None (default) leaves it the choice.
        lora: Fields of `LoraSettings`: trains an adapter, and keeps the model as it is. None (default): trains all.
        gradient_checkpointing: Computes activations again in the backward pass: less memory, a third more time. False
            (default): keeps them.

    Its state is a flat dict of weights by their names in the model (see `rllib_gigpo.rl_modules.weights`); with an
    adapter, of the adapter's alone. A checkpoint of it holds the same weights in `huggingface/`: a Hugging Face model
    directory, or the PEFT directory of the adapter.
    """

    weights_folder = HUGGINGFACE_FOLDER

    @override(RLModule)
    def setup(self) -> None:
        path = self.model_config[MODEL_PATH]
        validate_model_directory(path)
        self.tokenizer = load_tokenizer(path)
        self.lm = self.load_base()
        if lora := self.model_config.get(LORA):
            add_adapter(self.lm, LoraSettings(**lora), model_path=path)
        if self.inference_only:
            self.lm.requires_grad_(False)
        elif self.model_config.get(GRADIENT_CHECKPOINTING):
            self.checkpoint_gradients()

    @property
    @override(WeightsFolderRLModule)
    def network(self) -> PreTrainedModel:
        return self.lm

    def load_base(self) -> PreTrainedModel:
        """The model at `model_path`, without an adapter, on the CPU."""
        return load_causal_lm(
            self.model_config[MODEL_PATH],
            dtype=self.model_config.get(DTYPE, "float32"),
            attn_implementation=self.model_config.get(ATTN_IMPLEMENTATION),
        )

    @override(RLModule)
    def _forward_train(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, torch.Tensor]:
        """{"logits": [M, V]}, see `response_logits`."""
        return {"logits": response_logits(self.lm, batch)}

    @override(TorchRLModule)
    def get_state(
        self,
        components: str | Collection[str] | None = None,
        *,
        not_components: str | Collection[str] | None = None,
        inference_only: bool = False,
        **kwargs: Any,
    ) -> dict[str, np.ndarray]:
        """Copies of the weights by name, bfloat16 as its bits in uint16. The arguments change nothing."""
        return self.network_weights()

    @override(TorchRLModule)
    def set_state(self, state: dict[str, np.ndarray]) -> None:
        """Copies weights into the model in place. Raises ValueError where names or shapes differ."""
        set_weights(self.lm, state)

    def save_huggingface(self, directory: str | pathlib.Path, state: dict[str, np.ndarray] | None = None) -> None:
        """Writes a Hugging Face model directory: config, safetensors (of `state` where given), tokenizer; or, with an
        adapter, the PEFT directory of it, with the tokenizer."""
        if state is None and is_sharded(self.lm):
            state = self.network_weights()
        tensors = None if state is None else {name: array_to_tensor(array) for name, array in state.items()}
        if has_adapter(self.lm):
            own = {name: array_to_tensor(array) for name, array in self.network_weights().items()}
            save_adapter(self.lm, directory, own if tensors is None else tensors)
        else:
            self.lm.save_pretrained(str(directory), state_dict=tensors)
        self.tokenizer.save_pretrained(str(directory))

    @override(WeightsFolderRLModule)
    def write_weights(self, directory: str, state: dict[str, np.ndarray] | None) -> None:
        self.save_huggingface(directory, state)

    @override(WeightsFolderRLModule)
    def read_weights(self, directory: str) -> None:
        if has_adapter(self.lm):
            tensors = load_adapter_weights(self.lm, directory)
            set_weights(self.lm, {name: tensor_to_array(tensor) for name, tensor in tensors.items()})
            return
        validate_model_directory(directory)
        # Through transformers rather than by reading the files: it may store a model under other names than it runs it.
        saved = load_causal_lm(directory, dtype=self.model_config.get(DTYPE, "float32"))
        set_weights(self.lm, get_weights(saved))


def response_logits(lm: PreTrainedModel, batch: dict[str, Any]) -> torch.Tensor:
    """Logits of the response tokens of a padded micro-batch.

    Args:
        lm: The model.
        batch: As `rllib_gigpo.learners.micro_batches.pad_rows` makes it: input_ids, attention_mask and position_ids
            int64[B, L], response_columns R, response_index int64[M].

    Returns:
        [M, V], in the model's type: row m predicts response token m, rows packed back to back.
    """
    logits = lm(
        input_ids=batch["input_ids"],
        attention_mask=batch["attention_mask"],
        position_ids=batch["position_ids"],
        use_cache=False,
        # A token is predicted one column before its own, so the last column's logits predict nothing here.
        logits_to_keep=batch["response_columns"] + 1,
    ).logits[:, :-1]
    return logits.flatten(0, 1)[batch["response_index"]]
