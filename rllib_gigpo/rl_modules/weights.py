"""Weights as numpy arrays: what travels from learners to inference engines and into checkpoints, bfloat16 included."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import torch

from rllib_gigpo.rl_modules.lora import has_adapter, is_adapter_weight
from rllib_gigpo.rl_modules.sharded_tensors import is_sharded, like, whole


def tensor_to_array(tensor: torch.Tensor, *, copy: bool = True) -> np.ndarray:
    """A copy of `tensor` in host memory, same shape; bfloat16, which numpy lacks, as its bits in uint16. Of a tensor
    that is spread over learners all of it, for which all of them must call this.

    Without `copy`, one that is in host memory already shares it, and changes with it."""
    tensor = whole(tensor.detach()).to("cpu", copy=copy)
    return (tensor.view(torch.uint16) if tensor.dtype == torch.bfloat16 else tensor).numpy()


def array_to_tensor(array: np.ndarray) -> torch.Tensor:
    """The tensor that `tensor_to_array` made `array` from, on the CPU; it may share the array's memory."""
    # Arrays out of Ray's object store are read-only, which torch has no notion of.
    return _shared(array if array.flags.writeable else array.copy())


def _shared(array: np.ndarray) -> torch.Tensor:
    """The tensor with the memory of `array`; one of a read-only array, of which torch warns, must not be written to."""
    tensor = torch.from_numpy(array)
    return tensor.view(torch.bfloat16) if tensor.dtype == torch.uint16 else tensor


@contextmanager
def _quiet() -> Iterator[None]:
    """Without torch's warning of read-only arrays. Once for all weights, which may be hundreds of small ones."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        yield


def get_weights(module: torch.nn.Module, *, copy: bool = True) -> dict[str, np.ndarray]:
    """Parameters and persistent buffers of `module` by name, tied ones once, under the first of their names; of a model
    with a LoRA adapter, those of the adapter: the rest is never trained, and every process has it already. Without
    `copy` they may share the module's memory, as of `tensor_to_array`."""
    return {name: tensor_to_array(tensor, copy=copy) for name, tensor in _weights(module).items()}


@torch.no_grad()
def set_weights(module: torch.nn.Module, weights: Mapping[str, np.ndarray]) -> None:
    """Copies `weights`, as `get_weights` returns them, into `module` in place, cast to its types.

    Raises:
        ValueError: Names or a shape differ from those of `module`; nothing has been changed then.
    """
    own = _weights(module)
    _check_weights(own, weights)
    with _quiet():
        for name, tensor in own.items():
            tensor.copy_(like(tensor, _shared(weights[name])))


def check_weights(module: torch.nn.Module, weights: Mapping[str, np.ndarray]) -> None:
    """Checks that `weights` are those of `module`, which may be on the meta device.

    Raises:
        ValueError: Names or a shape differ.
    """
    _check_weights(_weights(module), weights)


def _check_weights(own: Mapping[str, torch.Tensor], weights: Mapping[str, np.ndarray]) -> None:
    missing, unknown = sorted(own.keys() - weights.keys()), sorted(weights.keys() - own.keys())
    if missing or unknown:
        raise ValueError(
            f"weights do not fit the model: missing {missing[:5]}, unknown {unknown[:5]} (first five each)"
        )
    for name, tensor in own.items():
        if weights[name].shape != tuple(tensor.shape):
            raise ValueError(f"weight {name!r} has shape {weights[name].shape}, the model's has {tuple(tensor.shape)}")


def _weights(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    first_name: dict[int, str] = {}
    # FSDP2 has hooks in `state_dict` that spread again what a pass has gathered. Others need none, and an adapter makes
    # thousands of modules out of hundreds, through which `state_dict` takes longer than to copy the adapter.
    tensors = module.state_dict(keep_vars=True) if is_sharded(module) else _state(module)
    if has_adapter(module):
        tensors = {name: tensor for name, tensor in tensors.items() if is_adapter_weight(name)}
    for name, tensor in tensors.items():
        first_name.setdefault(id(tensor), name)
    return {name: tensors[name] for name in first_name.values()}


def _state(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Parameters and persistent buffers by name, those of ties under all of their names, in the order of
    `state_dict`."""
    tensors: dict[str, torch.Tensor] = {}

    def add(part: torch.nn.Module, prefix: str) -> None:
        for name, weight in part._parameters.items():
            if weight is not None:
                tensors[prefix + name] = weight
        for name, buffer in part._buffers.items():
            if buffer is not None and name not in part._non_persistent_buffers_set:
                tensors[prefix + name] = buffer
        for name, child in part._modules.items():
            # An adapter's layers have more empty places for others than weights.
            if child is not None and (child._modules or child._parameters or child._buffers):
                add(child, f"{prefix}{name}.")

    add(module, "")
    return tensors
