"""A language model's RLModule without its weights, for env runners whose engine holds them in a process of its own."""

from __future__ import annotations

import functools
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from ray.rllib.core.rl_module.rl_module import RLModule, RLModuleSpec
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule
from ray.rllib.utils.annotations import override

from rllib_gigpo.rl_modules.causal_lm_rl_module import MODEL_PATH, CausalLMRLModule
from rllib_gigpo.rl_modules.model_directory import causal_lm_skeleton
from rllib_gigpo.rl_modules.weights_folder import WeightsFolderRLModule

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class CausalLMFacade(CausalLMRLModule):
    """What connectors and engines need of a `CausalLMRLModule`: its tokenizer, and the names and shapes of its weights.

    `lm` is on torch's meta device, where tensors have no memory. Weights go to the engine, so the state is empty.
    """

    @override(CausalLMRLModule)
    def load_base(self) -> PreTrainedModel:
        return causal_lm_skeleton(Path(self.model_config[MODEL_PATH]))

    @override(TorchRLModule)
    def get_state(
        self,
        components: str | Collection[str] | None = None,
        *,
        not_components: str | Collection[str] | None = None,
        inference_only: bool = False,
        **kwargs: Any,
    ) -> dict[str, np.ndarray]:
        """Nothing."""
        return {}

    @override(TorchRLModule)
    def set_state(self, state: dict[str, np.ndarray]) -> None:
        """Does nothing: an engine takes weights by `deliver`."""

    @override(RLModule)
    def _forward_train(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        raise NotImplementedError("a CausalLMFacade has no weights; its engine samples")

    @override(WeightsFolderRLModule)
    def write_weights(self, directory: str, state: dict[str, np.ndarray] | None) -> None:
        """Writes an empty folder."""
        Path(directory).mkdir(parents=True, exist_ok=True)

    @override(WeightsFolderRLModule)
    def read_weights(self, directory: str) -> None:
        """Reads nothing."""


def facade_spec(spec: RLModuleSpec) -> RLModuleSpec:
    """The spec of the facade of a language model; any other module's as it is."""
    if spec.module_class is not None and issubclass(spec.module_class, CausalLMRLModule):
        spec.module_class = _facade_class(spec.module_class)
    return spec


@functools.cache
def _facade_class(module_class: type[CausalLMRLModule]) -> type[CausalLMFacade]:
    """The facade of a module's class, with what the class knows of prompts and images."""
    if module_class is CausalLMRLModule:
        return CausalLMFacade
    return type(f"{module_class.__name__}Facade", (CausalLMFacade, module_class), {})
