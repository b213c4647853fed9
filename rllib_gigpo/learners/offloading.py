"""Networks that are kept in host memory, and are on a device only while they are used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


def pin(network: torch.nn.Module) -> None:
    """Puts a network's weights into memory that a CUDA device copies from at full speed."""
    for tensor in (*network.parameters(), *network.buffers()):
        tensor.data = tensor.data.pin_memory()


@contextmanager
def on_device(network: torch.nn.Module, device: torch.device | str) -> Iterator[None]:
    """Within it the weights and buffers of a network are on a device, for use without gradients. Nothing is copied
    back: afterwards the network has the tensors again that it had before."""
    slots = list(_slots(network))
    # Tied weights are moved once.
    tensors = {id(tensor): tensor for _, _, tensor in slots}
    moved = {key: tensor.detach().to(device, non_blocking=True) for key, tensor in tensors.items()}
    for of_part, name, tensor in slots:
        of_part[name] = moved[id(tensor)]
    try:
        yield
    finally:
        for of_part, name, tensor in slots:
            of_part[name] = tensor


def _slots(network: torch.nn.Module) -> Iterator[tuple[dict[str, Any], str, torch.Tensor]]:
    """Where the weights and buffers of all parts of a network are."""
    for part in network.modules():
        of_part: dict[str, Any]
        for of_part in (part._parameters, part._buffers):
            yield from ((of_part, name, tensor) for name, tensor in of_part.items() if tensor is not None)
