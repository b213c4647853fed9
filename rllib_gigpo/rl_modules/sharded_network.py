"""FSDP2: a network whose weights, gradients and optimizer state are spread over several learners."""

from __future__ import annotations

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from transformers import PreTrainedModel


def shard_network(network: PreTrainedModel, mesh: DeviceMesh, *, mixed_precision: bool) -> None:
    """Spreads the weights of `network` over the learners of `mesh`, in place: layer by layer, the rest as one unit.

    Every learner must call it, with equal weights. From then on a forward or backward pass is an exchange in which all
    of them take part; names of weights stay.

    Args:
        network: The model, on the device of `mesh`.
        mesh: One-dimensional.
        mixed_precision: Passes compute in bfloat16; weights, gradients and optimizer keep their type.

    Raises:
        ValueError: The model does not say which of its layers are units.
    """
    names = set(network._no_split_modules or ())
    layers = [module for module in network.modules() if type(module).__name__ in names]
    if not layers:
        raise ValueError(f"{type(network).__name__} names no layers to shard (_no_split_modules); use sharding=None")
    policy = MixedPrecisionPolicy(
        param_dtype=torch.bfloat16 if mixed_precision else None,
        # Sums over many learners lose too much in bfloat16.
        reduce_dtype=torch.float32 if mixed_precision else None,
    )
    for layer in layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(network, mesh=mesh, mp_policy=policy)


def is_sharded(network: torch.nn.Module) -> bool:
    """Whether `shard_network` has spread it."""
    return isinstance(network, FSDPModule)


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor itself, or, of one that is spread over learners, all of it: an exchange between them."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def like(tensor: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """`value`, a whole tensor of the shape of `tensor`, on its device, in its type, and spread as it is, without an
    exchange: every learner has the value and takes its own part."""
    value = value.to(tensor.device, tensor.dtype)
    if not isinstance(tensor, DTensor):
        return value
    return distribute_tensor(value, tensor.device_mesh, tensor.placements, src_data_rank=None)
