"""The weights that are delivered and saved are those of `state_dict`, by its names and in its order, ties once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from rllib_gigpo.rl_modules.causal_lm_rl_module import causal_lm_spec
from rllib_gigpo.rl_modules.lora import LoraSettings, is_adapter_weight
from rllib_gigpo.rl_modules.weights import get_weights, tensor_to_array
from tests.tiny_models import save_tiny_model, save_tiny_vlm

pytestmark = pytest.mark.integration

MODELS: dict[str, Callable[[Path], Path]] = {
    "tied": save_tiny_model,
    "untied": partial(save_tiny_model, tie_word_embeddings=False),
    "vision": save_tiny_vlm,
}


@pytest.mark.parametrize("lora", [None, LoraSettings(rank=2)], ids=["full", "adapter"])
@pytest.mark.parametrize("model", MODELS)
def test_weights_are_those_of_state_dict(model: str, lora: LoraSettings | None, tmp_path: Path) -> None:
    lm = causal_lm_spec(str(MODELS[model](tmp_path)), lora=lora).build().lm
    seen: set[int] = set()
    expected = {}
    for name, tensor in lm.state_dict(keep_vars=True).items():
        if id(tensor) not in seen and (lora is None or is_adapter_weight(name)):
            seen.add(id(tensor))
            expected[name] = tensor_to_array(tensor)
    weights = get_weights(lm)
    assert list(weights) == list(expected)
    assert len(weights) > 10
    for name, array in weights.items():
        np.testing.assert_array_equal(array, expected[name])
