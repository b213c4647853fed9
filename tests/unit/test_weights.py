"""Weights as arrays: which tensors of a module they are, and in which order."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from torch import nn

from rllib_gigpo.rl_modules.weights import get_weights, set_weights

pytestmark = pytest.mark.unit


class Part(nn.Module):
    """A parameter, a place for one, a buffer, and a buffer that is not to be kept."""

    def __init__(self) -> None:
        super().__init__()
        self.register_parameter("unused", None)
        self.register_buffer("scale", torch.tensor([3.0]))
        self.register_buffer("cache", torch.tensor([4.0]), persistent=False)
        self.weight = nn.Parameter(torch.tensor([[1.0, 2.0]]))


def model() -> nn.Module:
    model = nn.ModuleDict({"embedding": nn.Embedding(2, 3), "part": Part(), "output": nn.Linear(3, 2, bias=False)})
    model["output"].weight = model["embedding"].weight
    return model


def test_weights_are_those_of_state_dict_in_its_order_and_ties_once() -> None:
    weights, expected = get_weights(model()), model().state_dict()
    assert list(weights) == [name for name in expected if name != "output.weight"]
    assert list(weights) == ["embedding.weight", "part.weight", "part.scale"]
    assert [array.shape for array in weights.values()] == [(2, 3), (1, 2), (1,)]


def test_weights_of_one_model_make_another_the_same() -> None:
    source, target = model(), model()
    weights = get_weights(source)
    for array in weights.values():
        array.flags.writeable = False  # as they come from Ray's object store
    torch.set_warn_always(True)  # of arrays that are read-only it warns once in a process
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            set_weights(target, weights)
    finally:
        torch.set_warn_always(False)
    for name, value in source.state_dict().items():
        assert torch.equal(target.state_dict()[name], value), name
    assert target["output"].weight is target["embedding"].weight


def test_of_an_adapter_only_its_own_weights() -> None:
    adapted = nn.ModuleDict({"lora_A": nn.ModuleDict({"default": nn.Linear(2, 1, bias=False)}), "base": Part()})
    outer = nn.ModuleDict({"layer": adapted})
    outer.peft_config = {}  # type: ignore[assignment]
    assert list(get_weights(outer)) == ["layer.lora_A.default.weight"]


def test_arrays_without_copy_share_memory_and_with_copy_do_not() -> None:
    module = Part()
    shared, copied = get_weights(module, copy=False)["weight"], get_weights(module)["weight"]
    with torch.no_grad():
        module.weight.fill_(7.0)
    np.testing.assert_array_equal(shared, [[7.0, 7.0]])
    np.testing.assert_array_equal(copied, [[1.0, 2.0]])
