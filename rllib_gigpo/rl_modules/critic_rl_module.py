"""The critic of an actor-critic algorithm: a language model's body with a linear head that gives values."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
import torch
from ray.rllib.core.rl_module.rl_module import RLModule, RLModuleSpec
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule
from ray.rllib.utils.annotations import override

from rllib_gigpo.rl_modules.causal_lm_rl_module import (
    ATTN_IMPLEMENTATION,
    DTYPE,
    GRADIENT_CHECKPOINTING,
    LORA,
    MODEL_PATH,
    SHARE_PREFIXES,
)
from rllib_gigpo.rl_modules.lora import LoraSettings, add_adapter
from rllib_gigpo.rl_modules.model_directory import load_causal_lm, validate_model_directory
from rllib_gigpo.rl_modules.module_choice import language_module_class
from rllib_gigpo.rl_modules.shared_prefix_attention import (
    SHARED_PREFIXES,
    can_share_prefixes,
    enable_shared_prefixes,
)
from rllib_gigpo.rl_modules.weights import array_to_tensor, get_weights, set_weights, tensor_to_array
from rllib_gigpo.rl_modules.weights_folder import WeightsFolderRLModule

if TYPE_CHECKING:
    from transformers import PreTrainedModel

CRITIC_WEIGHTS_FILE = "critic.safetensors"


def critic_id(policy_id: str) -> str:
    """The id of the module that is the critic of a policy."""
    return f"{policy_id}_critic"


def critic_spec(policy: RLModuleSpec) -> RLModuleSpec:
    """The spec of the critic of a policy, a `CausalLMRLModule`: of the same model, with an adapter where that has one.

    Env runners do not build it.
    """
    anything = gym.spaces.Text(max_length=1_000_000, min_length=0)
    return RLModuleSpec(
        module_class=CriticRLModule,
        observation_space=anything,
        action_space=anything,
        learner_only=True,
        model_config=dict(policy.model_config),
    )


class CriticRLModule(WeightsFolderRLModule):
    """Values of the states before response tokens; that before a response's first token is the value of the prompt.

    The body is that of the language model at `model_path`, without its output layer; the head is one linear layer, in
    float32, and zero at first: so all values are 0 until the critic has learned. Nothing is shared with the policy.

    Keys of `model_config`: those of `CausalLMRLModule`. With `lora`, an adapter of the body and the head are trained,
    and the body itself stays as it is. Its state are arrays by name, "body.…" and "head.…"; with an adapter, of the
    adapter and the head alone. A checkpoint holds them in `critic/critic.safetensors`.
    """

    weights_folder = "critic"

    @override(RLModule)
    def setup(self) -> None:
        path = self.model_config[MODEL_PATH]
        validate_model_directory(path)
        lm = load_causal_lm(
            path,
            dtype=self.model_config.get(DTYPE, "float32"),
            attn_implementation=self.model_config.get(ATTN_IMPLEMENTATION),
        )
        self.body = _body(lm, path)
        self._model_inputs = language_module_class(path).make_model_inputs(path)
        if lora := self.model_config.get(LORA):
            add_adapter(self.body, _settings_of_body(LoraSettings(**lora), lm), model_path=path)
        # torch would draw the weights from its global generator.
        hidden_size = lm.config.get_text_config().hidden_size
        self.head = torch.nn.utils.skip_init(torch.nn.Linear, hidden_size, 1, dtype=torch.float32)
        for parameter in self.head.parameters():
            torch.nn.init.zeros_(parameter)
        if self.model_config.get(GRADIENT_CHECKPOINTING):
            self.checkpoint_gradients()
        if self.model_config.get(SHARE_PREFIXES) and can_share_prefixes(self.body):
            enable_shared_prefixes(self.body)

    @property
    @override(WeightsFolderRLModule)
    def network(self) -> PreTrainedModel:
        return self.body

    @override(RLModule)
    def _forward_train(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, torch.Tensor]:
        """{"values": float32[M]}, one per response token of a micro-batch, see `micro_batch_tensors`."""
        shared = {name: batch[name] for name in (SHARED_PREFIXES,) if name in batch}
        outputs = self.body(**self._model_inputs(self.body, batch), **shared, use_cache=False)
        hidden = outputs.last_hidden_state
        if not shared:
            hidden = hidden[:, -batch["response_columns"] - 1 : -1]
        return {"values": self.head(hidden.flatten(0, 1)[batch["response_index"]].float()).squeeze(-1)}

    @override(TorchRLModule)
    def get_state(
        self,
        components: str | Collection[str] | None = None,
        *,
        not_components: str | Collection[str] | None = None,
        inference_only: bool = False,
        **kwargs: Any,
    ) -> dict[str, np.ndarray]:
        """Copies of the weights by name, bfloat16 as its bits in uint16; none for inference."""
        if inference_only:
            return {}
        return {
            f"{part}.{name}": array
            for part in ("body", "head")
            for name, array in get_weights(getattr(self, part)).items()
        }

    @override(TorchRLModule)
    def set_state(self, state: dict[str, np.ndarray]) -> None:
        """Copies weights in place. Raises ValueError where names or shapes differ."""
        unknown = sorted(name for name in state if name.partition(".")[0] not in ("body", "head"))
        if unknown:
            raise ValueError(f"weights do not fit the critic: unknown {unknown[:5]} (first five)")
        for part in ("body", "head"):
            prefix = f"{part}."
            of_part = {name.removeprefix(prefix): array for name, array in state.items() if name.startswith(prefix)}
            set_weights(getattr(self, part), of_part)

    @override(WeightsFolderRLModule)
    def write_weights(self, directory: str, state: dict[str, np.ndarray] | None) -> None:
        from safetensors.torch import save_file

        Path(directory).mkdir(parents=True, exist_ok=True)
        arrays = self.get_state() if state is None else state
        save_file(
            {name: array_to_tensor(array) for name, array in arrays.items()}, Path(directory, CRITIC_WEIGHTS_FILE)
        )

    @override(WeightsFolderRLModule)
    def read_weights(self, directory: str) -> None:
        from safetensors.torch import load_file

        file = Path(directory, CRITIC_WEIGHTS_FILE)
        if not file.is_file():
            raise ValueError(f"there is no {CRITIC_WEIGHTS_FILE} in {directory}: the checkpoint has no critic")
        self.set_state({name: tensor_to_array(tensor) for name, tensor in load_file(file).items()})


def _body(lm: PreTrainedModel, path: str) -> PreTrainedModel:
    body = lm.base_model
    if body is lm:
        raise ValueError(f"the model in {path}, a {type(lm).__name__}, has no body apart from its output layer")
    return body


def _settings_of_body(settings: LoraSettings, lm: PreTrainedModel) -> LoraSettings:
    """`settings` for the body of `lm`, where full names of layers lack the first part."""
    if settings.targets == "all-linear":
        return settings
    prefix = f"{lm.base_model_prefix}."
    return settings._replace(targets=[target.removeprefix(prefix) for target in settings.targets])
