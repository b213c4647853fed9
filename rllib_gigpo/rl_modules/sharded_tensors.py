"""Tensors that may be spread over several learners, see `sharded_network`, for code that meets both kinds.

Whoever has spread a tensor has imported `torch.distributed`'s packages for that. They take a second: nobody else does.
"""

from __future__ import annotations

import sys

import torch


def is_sharded(network: torch.nn.Module) -> bool:
    """Whether `shard_network` has spread it."""
    fsdp = sys.modules.get("torch.distributed.fsdp")
    return fsdp is not None and isinstance(network, fsdp.FSDPModule)


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor itself, or, of one that is spread over learners, all of it: an exchange between them."""
    return tensor.full_tensor() if _is_spread(tensor) else tensor  # type: ignore[attr-defined]


def like(tensor: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """`value`, a whole tensor of the shape of `tensor`, on its device, in its type, and spread as it is, without an
    exchange: every learner has the value and takes its own part."""
    value = value.to(tensor.device, tensor.dtype)
    if not _is_spread(tensor):
        return value
    from torch.distributed.tensor import DTensor, distribute_tensor

    assert isinstance(tensor, DTensor)
    return distribute_tensor(value, tensor.device_mesh, tensor.placements, src_data_rank=None)


def _is_spread(tensor: torch.Tensor) -> bool:
    spread = sys.modules.get("torch.distributed.tensor")
    return spread is not None and isinstance(tensor, spread.DTensor)
