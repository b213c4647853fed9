"""The reference policy, from which a KL term keeps the trained one from straying."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from transformers import PreTrainedModel

from rllib_gigpo.rl_modules.causal_lm_rl_module import CausalLMRLModule
from rllib_gigpo.rl_modules.lora import adapter_disabled, has_adapter
from rllib_gigpo.rl_modules.shared_prefix_attention import enable_shared_prefixes, has_shared_prefixes


def is_reference_needed(kl_coeff: float | Sequence[Sequence[float]]) -> bool:
    """Whether a coefficient, or any value of a schedule [[timestep, value], …], differs from 0."""
    if isinstance(kl_coeff, int | float):
        return kl_coeff != 0
    return any(value != 0 for _, value in kl_coeff)


class ReferencePolicy:
    """The model at `model_path`, whatever the module's weights have become since, by training or from a checkpoint.

    Under LoRA it is the module's own base model with the adapter switched off, which takes no memory; else a second,
    frozen model of the same type on `device`.
    """

    def __init__(self, module: CausalLMRLModule, device: torch.device | str, shard: Callable[[PreTrainedModel], None]):
        """
        Args:
            module: The policy.
            device: Of a model of its own.
            shard: Spreads that over the learners where the policy is.
        """
        self._module = module
        self.network = module.lm
        if not has_adapter(module.lm):
            self.network = module.load_base().requires_grad_(False).to(device)
            if has_shared_prefixes(module.lm):
                enable_shared_prefixes(self.network)
            shard(self.network)

    def logits(self, batch: dict[str, Any]) -> torch.Tensor:
        """Logits of the response tokens of a micro-batch, [M, V]; see `CausalLMRLModule.response_logits`."""
        with torch.no_grad(), adapter_disabled(self.network):
            return self._module.response_logits(self.network, batch)
