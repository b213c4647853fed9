"""Several LoRA adapters over one model: its weights are in memory once."""

from __future__ import annotations

from collections.abc import Hashable

import torch
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModule
from ray.rllib.core.rl_module.rl_module import RLModule
from ray.rllib.utils.annotations import override

from rllib_gigpo.rl_modules.causal_lm_rl_module import ATTN_IMPLEMENTATION, DTYPE, LORA, MODEL_PATH
from rllib_gigpo.rl_modules.critic_rl_module import CriticRLModule
from rllib_gigpo.rl_modules.lora import base_name, is_adapter_weight


class SharedBaseMultiRLModule(MultiRLModule):
    """A `MultiRLModule` whose modules with a LoRA adapter share the base model where that is the same: policies with
    policies, critics with critics.

    While it is set up, the base model is in memory once more.
    """

    @override(MultiRLModule)
    def setup(self) -> None:
        self._rl_modules: dict[str, RLModule] = {}
        first_with: dict[Hashable, RLModule] = {}
        for module_id, spec in self.rl_module_specs.items():
            module = spec.build()
            base = _base_model(module)
            if base is not None and (first := first_with.setdefault(base, module)) is not module:
                share_base_weights(first.network, module.network)
            self._rl_modules[module_id] = module
        self.framework = "torch"


def share_base_weights(owner: torch.nn.Module, other: torch.nn.Module) -> None:
    """Puts the base weights of `owner` into `other` in place of its own equal ones; both have a LoRA adapter over the
    same model, which is never trained."""
    weights = {base_name(name): weight for name, weight in owner.named_parameters(remove_duplicate=False)}
    for name, _ in list(other.named_parameters(remove_duplicate=False)):
        if not is_adapter_weight(name):
            layer, _, leaf = name.rpartition(".")
            other.get_submodule(layer).register_parameter(leaf, weights[base_name(name)])


def _base_model(module: RLModule) -> Hashable | None:
    """What modules with the same base model have in common; None for one that has its own."""
    config = module.model_config
    if not isinstance(config, dict) or not config.get(LORA):
        return None
    return isinstance(module, CriticRLModule), config[MODEL_PATH], config.get(DTYPE), config.get(ATTN_IMPLEMENTATION)
