"""Backward passes of a mini-batch in micro-batches, so that gradients end up averaged over the learners."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import torch
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchDDPRLModule

from rllib_gigpo.learners.equal_passes import NO_ROWS, filler_row, passes_of
from rllib_gigpo.learners.learner_progress import count_pass
from rllib_gigpo.learners.response_scores import micro_batch_tensors
from rllib_gigpo.rl_modules.sharded_tensors import is_sharded
from rllib_gigpo.rows import TokenRows

if TYPE_CHECKING:
    from torch.distributed.fsdp import FSDPModule


def accumulate_gradients(
    module: Any,
    rows: TokenRows,
    loss_of: Callable[[dict[str, Any]], torch.Tensor],
    *,
    micro_batch_tokens: int,
    pad_id: int,
    device: torch.device | str,
) -> None:
    """Forward and backward passes of all of `rows`.

    With several learners all of them must call it; gradients are exchanged once, with the last backward pass.

    Args:
        module: The RLModule, with or without its wrapper for distributed training.
        rows: May be none: then gradients are zero, and still exchanged.
        loss_of: The loss of a micro-batch as `micro_batch_tensors` makes it, a scalar; losses add up. The forward pass
            is its own, through `module.forward_train`.
        micro_batch_tokens: Padded tokens per pass.
        pad_id: Any id that the model embeds.
        device: Of the model.
    """
    network = module.unwrapped().network
    # DDP waits for a backward pass over all parameters from every learner, also from one without rows.
    passes = passes_of(rows, network, micro_batch_tokens, device) or [NO_ROWS]
    for index, (part, layout) in enumerate(passes):
        count_pass()
        with _gradient_sync(module, network, is_last=index == len(passes) - 1):
            if len(part):
                batch = micro_batch_tensors(rows.take(part), layout, pad_id=pad_id, device=device)
                loss_of(batch).backward()
            else:
                outputs = module.forward_train(micro_batch_tensors(filler_row(pad_id), pad_id=pad_id, device=device))
                (sum(output.float().sum() for output in outputs.values()) * 0.0).backward()


def _gradient_sync(module: Any, network: torch.nn.Module, *, is_last: bool) -> contextlib.AbstractContextManager[None]:
    if is_sharded(network):
        cast("FSDPModule", network).set_requires_gradient_sync(is_last)
    elif not is_last and isinstance(module, TorchDDPRLModule):
        return module.no_sync()
    return contextlib.nullcontext()
