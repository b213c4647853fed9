"""A Hugging Face causal language model as an RLlib RLModule."""

from __future__ import annotations

import pathlib
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import gymnasium as gym
import numpy as np
import torch
from ray.rllib.core.rl_module.rl_module import RLModule, RLModuleSpec
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule
from ray.rllib.utils.annotations import override

from rllib_gigpo.inference.weights_probe import Probe, probe_token_ids
from rllib_gigpo.rl_modules.lora import LoraSettings, add_adapter, has_adapter, load_adapter_weights, save_adapter
from rllib_gigpo.rl_modules.model_directory import (
    DtypeName,
    copy_processor_files,
    load_causal_lm,
    load_tokenizer,
    validate_model_directory,
    validate_weights_directory,
)
from rllib_gigpo.rl_modules.model_inputs import ModelInputs, text_inputs
from rllib_gigpo.rl_modules.sharded_tensors import is_sharded
from rllib_gigpo.rl_modules.shared_prefix_attention import (
    SHARED_PREFIXES,
    can_share_prefixes,
    enable_shared_prefixes,
)
from rllib_gigpo.rl_modules.weight_files import open_weight_files
from rllib_gigpo.rl_modules.weights import array_to_tensor, get_weights, set_weights, tensor_to_array
from rllib_gigpo.rl_modules.weights_folder import WeightsFolderRLModule

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from rllib_gigpo.images import StoredImage

MODEL_PATH = "model_path"
DTYPE = "dtype"
ATTN_IMPLEMENTATION = "attn_implementation"
LORA = "lora"
FREEZE_VISION_TOWER = "freeze_vision_tower"
GRADIENT_CHECKPOINTING = "gradient_checkpointing"
SHARE_PREFIXES = "share_prefixes"

# Folder of a module's checkpoint that any program which reads Hugging Face models can open.
HUGGINGFACE_FOLDER = "huggingface"


def causal_lm_spec(
    model_path: str,
    *,
    dtype: DtypeName = "float32",
    attn_implementation: str | None = None,
    lora: LoraSettings | None = None,
    freeze_vision_tower: bool = False,
    gradient_checkpointing: bool = False,
    share_prefixes: bool = True,
) -> RLModuleSpec:
    """The spec of the module that a model directory takes; see `CausalLMRLModule` for the arguments.

    Raises:
        ValueError: `model_path` is no complete model directory (see `validate_model_directory`).
    """
    from rllib_gigpo.rl_modules.module_choice import language_module_class  # which imports this module

    validate_model_directory(model_path)
    # RLlib builds no module without spaces; tokens, not spaces, are what this one reads and writes.
    anything = gym.spaces.Text(max_length=1_000_000, min_length=0)
    return RLModuleSpec(
        module_class=language_module_class(model_path),
        observation_space=anything,
        action_space=anything,
        model_config={
            MODEL_PATH: model_path,
            DTYPE: dtype,
            ATTN_IMPLEMENTATION: attn_implementation,
            LORA: None if lora is None else lora._asdict(),
            FREEZE_VISION_TOWER: freeze_vision_tower,
            GRADIENT_CHECKPOINTING: gradient_checkpointing,
            SHARE_PREFIXES: share_prefixes,
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
        freeze_vision_tower: Keeps that of a vision-language model as it is; False (default): trains it too.
        gradient_checkpointing: Computes activations again in the backward pass: less memory, a third more time. False
            (default): keeps them.
        share_prefixes: Computes a prefix that rows of a micro-batch share once, and on a CPU packs rows that share
            nothing instead of padding them, where the model is one that `can_share_prefixes`. False (default): each row
            by itself, padded.

    Its state is a flat dict of weights by their names in the model (see `rllib_gigpo.rl_modules.weights`); with an
    adapter, of the adapter's alone. A checkpoint of it holds the same weights in `huggingface/`: a Hugging Face model
    directory, or the PEFT directory of the adapter.
    """

    weights_folder = HUGGINGFACE_FOLDER
    reads_images: ClassVar[bool] = False

    @override(RLModule)
    def setup(self) -> None:
        path = self.model_config[MODEL_PATH]
        validate_model_directory(path)
        self.tokenizer = load_tokenizer(path)
        self.model_inputs = self.make_model_inputs(path)
        self.lm = self.load_base()
        frozen = self.frozen_parts()
        if lora := self.model_config.get(LORA):
            add_adapter(self.lm, LoraSettings(**lora), model_path=path, frozen=frozen)
        for part in frozen:
            self.lm.get_submodule(part).requires_grad_(False)
        if self.inference_only:
            self.lm.requires_grad_(False)
            return
        if self.model_config.get(GRADIENT_CHECKPOINTING):
            self.checkpoint_gradients()
        if self.model_config.get(SHARE_PREFIXES) and can_share_prefixes(self.lm):
            enable_shared_prefixes(self.lm)

    @property
    @override(WeightsFolderRLModule)
    def network(self) -> PreTrainedModel:
        return self.lm

    def load_base(self) -> PreTrainedModel:
        """The model at `model_path`, without an adapter, on the CPU; within `torch.device("meta")` as `load_causal_lm`
        makes it there."""
        return load_causal_lm(
            self.model_config[MODEL_PATH],
            dtype=self.model_config.get(DTYPE, "float32"),
            attn_implementation=self.model_config.get(ATTN_IMPLEMENTATION),
        )

    def frozen_parts(self) -> Sequence[str]:
        """Names of the parts of the model that are not trained. Raises ValueError where the config asks for one that
        the model has not."""
        if self.model_config.get(FREEZE_VISION_TOWER):
            raise ValueError(
                f"freeze_vision_tower=True does nothing: the model in {self.model_config[MODEL_PATH]} is read as text "
                "alone. Leave it out"
            )
        return ()

    def with_image_tokens(self, prompt_ids: np.ndarray, images: Sequence[StoredImage]) -> np.ndarray:
        """A prompt in which each image has as many ids as it is tokens to the model.

        Args:
            prompt_ids: int32[P], as the chat template writes them.
            images: Those of the prompt, in their order.

        Raises:
            ValueError: The model reads text alone; or the template writes other than one placeholder for an image.
        """
        raise ValueError(
            f"the model in {self.model_config[MODEL_PATH]} reads text alone, but its prompt has {len(images)} images"
        )

    def with_placeholders(self, prompt_ids: np.ndarray, images: Sequence[StoredImage]) -> np.ndarray:
        """The inverse of `with_image_tokens`, for engines that expand placeholders by themselves: one id per image.
        Raises ValueError where the prompt has not the image tokens that its images take."""
        if images:
            raise ValueError(f"the model in {self.model_config[MODEL_PATH]} reads text alone, not {len(images)} images")
        return prompt_ids

    @classmethod
    def make_model_inputs(cls, model_path: str) -> ModelInputs:
        """What forward passes of the model of a directory take of rows, whatever its weights, and whether it has its
        output layer."""
        return text_inputs

    def vllm_architecture(self) -> str | None:
        """The architecture under which vLLM knows the model, where it is not that of the model's config.json."""
        return None

    def probe(self) -> Probe:
        """What proves that an engine serves this model's weights."""
        return Probe(probe_token_ids(self.lm.config.get_text_config().vocab_size))

    def response_logits(self, lm: PreTrainedModel, batch: Mapping[str, Any]) -> torch.Tensor:
        """Logits of the response tokens of a micro-batch.

        Args:
            lm: This model, with whatever weights.
            batch: As `rllib_gigpo.learners.response_scores.micro_batch_tensors` makes it: what `model_inputs` reads;
                response_index int64[M]; of padded rows response_columns R, of others SHARED_PREFIXES.

        Returns:
            [M, V], in the model's type: row m predicts response token m, rows packed back to back.
        """
        inputs = self.model_inputs(lm, batch)
        if SHARED_PREFIXES in batch:
            shared = {SHARED_PREFIXES: batch[SHARED_PREFIXES]}
            return lm(**inputs, **shared, use_cache=False, logits_to_keep=batch["response_index"]).logits[0]
        logits = lm(
            **inputs,
            use_cache=False,
            # A token is predicted one column before its own, so the last column's logits predict nothing here.
            logits_to_keep=batch["response_columns"] + 1,
        ).logits[:, :-1]
        return logits.flatten(0, 1)[batch["response_index"]]

    @override(RLModule)
    def _forward_train(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, torch.Tensor]:
        """{"logits": [M, V]}, see `response_logits`."""
        return {"logits": self.response_logits(self.lm, batch)}

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
        copy_processor_files(self.model_config[MODEL_PATH], directory)
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
        validate_weights_directory(directory)
        if is_sharded(self.lm) and (files := open_weight_files(directory)) is not None:
            from rllib_gigpo.rl_modules.sharded_network import read_weights_of

            read_weights_of(self.lm, files, allow_unexpected=False)
            return
        # Through transformers rather than by reading the files: it may store a model under other names than it runs it.
        saved = load_causal_lm(directory, dtype=self.model_config.get(DTYPE, "float32"), allow_unexpected=False)
        set_weights(self.lm, get_weights(saved))
