"""FSDP2: a network whose weights, gradients and optimizer state are spread over several learners."""

from __future__ import annotations

from pathlib import Path

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy, fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset
from transformers import PreTrainedModel

from rllib_gigpo.rl_modules.lora import base_name, is_adapter_weight
from rllib_gigpo.rl_modules.weight_files import WeightFiles, open_weight_files


def shard_network(network: PreTrainedModel, mesh: DeviceMesh, *, mixed_precision: bool, offload: bool = False) -> None:
    """Spreads the weights of `network` over the learners of `mesh`, in place: layer by layer, the rest as one unit.

    Every learner must call it, with equal weights. From then on a forward or backward pass is an exchange in which all
    of them take part; names of weights stay.

    Args:
        network: The model, on the device of `mesh`, on the CPU, from where it is moved there layer by layer, or on the
            meta device, where it stays until `read_missing_weights`.
        mesh: One-dimensional.
        mixed_precision: Passes compute in bfloat16; weights, gradients and optimizer keep their type.
        offload: Weights stay in host memory, and are on the device for the pass over their layer only.

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
    place = CPUOffloadPolicy(pin_memory=mesh.device_type == "cuda") if offload else OffloadPolicy()
    for unit in (*layers, network):
        fully_shard(unit, mesh=mesh, mp_policy=policy, offload_policy=place)


def read_missing_weights(network: PreTrainedModel, model_path: str | Path, device: torch.device | str) -> None:
    """Gives a sharded network, whose parameters are on the meta device, those of a model directory, in place.

    Every learner reads the rows of each weight that it holds, one weight after another: beside its part of the model it
    has one of these at a time in memory.

    Args:
        network: An adapter in it, and buffers that are in no file, have their values already.
        model_path: Of the base model. One whose weights are not on the meta device was read whole, and is left alone.
        device: Of the parameters.

    Raises:
        ValueError: The files lack a weight, or have one in another shape.
    """
    missing = {name for name, weight in network.state_dict(keep_vars=True).items() if weight.is_meta}
    if not missing:
        return
    _take_memory(network, device)
    files = open_weight_files(model_path)
    assert files is not None, "whoever has left the weights out has asked"
    read_weights_of(network, files)


@torch.no_grad()
def read_weights_of(network: PreTrainedModel, files: WeightFiles, *, allow_unexpected: bool = True) -> None:
    """Copies the weights of a model directory into a sharded network, in place, in parts as `read_missing_weights`.

    Raises:
        ValueError: The files lack a weight, have one in another shape, or have more than `allow_unexpected` allows;
            nothing has been changed then.
    """
    weights = {base_name(name): weight for name, weight in network.state_dict().items() if not is_adapter_weight(name)}
    files.check({name: tuple(w.shape) for name, w in weights.items()}, allow_unexpected=allow_unexpected)
    for name, weight in weights.items():
        if not isinstance(weight, DTensor):
            weight.copy_(files.whole(name))
            continue
        shape, offset = compute_local_shape_and_global_offset(weight.shape, weight.device_mesh, weight.placements)
        if 0 not in shape:  # a small weight may have fewer rows than there are learners
            weight.to_local().copy_(files.rows(name, offset[0], offset[0] + shape[0]))


def _take_memory(network: PreTrainedModel, device: torch.device | str) -> None:
    """Puts tensors with any values in the place of those on the meta device. `Module.to_empty` would do so with all
    others too, and would untie what is tied."""
    tensors: dict[int, torch.Tensor] = {}
    state: dict[str, torch.Tensor] = {}
    for name, weight in network.state_dict(keep_vars=True).items():
        if not weight.is_meta:
            continue
        if id(weight) not in tensors:
            tensor = torch.empty_like(weight.detach(), device=device)
            is_parameter = isinstance(weight, torch.nn.Parameter)
            tensors[id(weight)] = torch.nn.Parameter(tensor, weight.requires_grad) if is_parameter else tensor
        state[name] = tensors[id(weight)]
    network.load_state_dict(state, strict=False, assign=True)
