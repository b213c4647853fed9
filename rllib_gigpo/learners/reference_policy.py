"""The reference policy, from which a KL term keeps the trained one from straying."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from rllib_gigpo.learners.offloading import on_device, pin
from rllib_gigpo.rl_modules.causal_lm_rl_module import MODEL_PATH, CausalLMRLModule
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
    frozen model of the same type.
    """

    def __init__(
        self,
        module: CausalLMRLModule,
        device: torch.device,
        *,
        shard: Callable[..., None] | None,
        offload: bool,
    ):
        """
        Args:
            module: The policy.
            device: Where it computes, and where a model of its own is kept.
            shard: Spreads that over the learners, see `ShardedTorchLearner.shard`; None where each has all of it.
            offload: Keeps a model of its own in host memory; it is on the device only while it scores.
        """
        self._module = module
        self._device = device
        self._moves_whole = False
        self.network = module.lm
        if has_adapter(module.lm):
            return
        with torch.device("cpu" if shard is None else "meta"):
            self.network = module.load_base().requires_grad_(False)
        if has_shared_prefixes(module.lm):
            enable_shared_prefixes(self.network)
        if shard is not None:
            shard(self.network, module.model_config[MODEL_PATH], offload=offload)
        elif not offload:
            self.network.to(device)
        else:
            self._moves_whole = True
            if device.type == "cuda":
                pin(self.network)

    def in_use(self) -> AbstractContextManager[None]:
        """To be entered for passes through it, as many as there are at a time: moving it takes long."""
        return on_device(self.network, self._device) if self._moves_whole else nullcontext()

    def logits(self, batch: dict[str, Any]) -> torch.Tensor:
        """Logits of the response tokens of a micro-batch, [M, V]; see `CausalLMRLModule.response_logits`. Within
        `in_use`."""
        with torch.no_grad(), adapter_disabled(self.network):
            return self._module.response_logits(self.network, batch)
