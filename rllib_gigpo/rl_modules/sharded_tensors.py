"""Tensors that may be spread over several learners, see `sharded_network`, for code that meets both kinds.

Whoever has spread a tensor has imported torch.distributed.fsdp and torch.distributed.tensor, which takes seconds. This
file does not, for the sake of processes that hold no model.
"""

from __future__ import annotations

import sys

import torch


def is_sharded(network: torch.nn.Module) -> bool:
    """Whether `shard_network` has spread it."""
    return _is_instance(network, "torch.distributed.fsdp", "FSDPModule")


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
    return _is_instance(tensor, "torch.distributed.tensor", "DTensor")


def _is_instance(value: object, module: str, name: str) -> bool:
    """Whether `value` is of a class whose module may not have been imported, or not to its end."""
    found = getattr(sys.modules.get(module), name, None)
    return found is not None and isinstance(value, found)
