"""Weights that are delivered to the hf engine: what they change, and what is refused."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
import torch

from rllib_gigpo.inference.hf_engine import HFEngine
from rllib_gigpo.rl_modules.weights import get_weights
from tests.hf_engine_cases import at_response, full_forward_log_probs, generate_all, make_requests, new_own_engine

pytestmark = pytest.mark.integration


@pytest.fixture
def own_engine() -> HFEngine:
    return new_own_engine()


def test_delivered_weights_change_log_probs_and_version(own_engine: HFEngine) -> None:
    request = make_requests(1)[0]
    before = generate_all(own_engine, [request])[0]
    weights = {name: 0.5 * array for name, array in get_weights(own_engine._model).items()}
    for array in weights.values():
        array.flags.writeable = False  # As they come from Ray's object store.
    own_engine.deliver(weights, version=7)
    after = generate_all(own_engine, [request])[0]
    assert (before.weights_version, after.weights_version) == (0, 7)
    expected = full_forward_log_probs(own_engine._model, request, after)
    np.testing.assert_allclose(after.logp, at_response(expected, after), atol=1e-5)
    assert abs(before.logp[0] - after.logp[0]) > 1e-3


def test_bfloat16_weights_come_as_their_bits(own_engine: HFEngine) -> None:
    own_engine._model.to(torch.bfloat16)
    value = torch.linspace(0.5, 1.5, 32).bfloat16()
    bits = value.view(torch.uint16).numpy()
    own_engine.deliver({**get_weights(own_engine._model), "model.norm.weight": bits}, version=1)
    assert torch.equal(own_engine._model.get_parameter("model.norm.weight"), value)


def test_weights_that_do_not_fit_are_refused_whole(own_engine: HFEngine) -> None:
    good = {name: np.zeros_like(array) for name, array in get_weights(own_engine._model).items()}
    bad: dict[str, dict[str, Any]] = {
        r"missing \['model.norm.weight'\]": {n: v for n, v in good.items() if n != "model.norm.weight"},
        r"unknown \['model.extra'\]": {**good, "model.extra": np.zeros(1, np.float32)},
        r"norm.weight' has shape \(1,\), the model's has \(32,\)": {
            **good,
            "model.norm.weight": np.zeros(1, np.float32),
        },
    }
    for message, weights in bad.items():
        with pytest.raises(ValueError, match=message):
            own_engine.deliver(weights, version=1)
    assert own_engine.weights_version == 0
    parameters = own_engine._model.named_parameters()
    assert all(bool(p.any()) for n, p in parameters if not n.endswith("bias")), "nothing may be copied"


def test_weights_are_refused_while_a_client_is_open(own_engine: HFEngine) -> None:
    client = own_engine.client()
    weights = get_weights(own_engine._model)
    with pytest.raises(RuntimeError, match="1 clients are open"):
        own_engine.deliver(weights, version=1)
    asyncio.run(client.__aexit__(None, None, None))
    own_engine.deliver(weights, version=1)
    assert own_engine.weights_version == 1
