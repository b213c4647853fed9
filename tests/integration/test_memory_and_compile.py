"""Gradient checkpointing and torch.compile: they change what an update costs, not what it computes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from ray.rllib.core import DEFAULT_MODULE_ID

from rllib_gigpo.algorithms.grpo import GRPOConfig
from rllib_gigpo.rl_modules.critic_rl_module import critic_id
from rllib_gigpo.rl_modules.lora import LoraSettings
from tests.learner_cases import batch_of, build_learner_group, max_difference, random_rows
from tests.tiny_models import save_tiny_model

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def model_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("model"))


def _updated(model_directory: Path, **settings: object) -> tuple[dict[str, np.ndarray], int]:
    """The weights after one update, and how many times a layer was computed in it."""
    group = build_learner_group(model_directory, **settings)  # type: ignore[arg-type]
    assert group._learner is not None
    layers = 0

    def count(*_: object) -> None:
        nonlocal layers
        layers += 1

    module = group._learner.module[DEFAULT_MODULE_ID]
    layer = next(part for name, part in module.lm.named_modules() if name.endswith("layers.0"))
    layer.register_forward_pre_hook(count)
    group.update(batch=batch_of(random_rows(12)), timesteps={})
    return module.get_state(), layers


@pytest.mark.parametrize("lora", [None, LoraSettings(rank=4, seed=0)], ids=["full", "lora"])
def test_gradient_checkpointing_gives_the_same_update_and_computes_layers_twice(
    model_directory: Path, lora: LoraSettings | None
) -> None:
    plain, once = _updated(model_directory, lora=lora, micro_batch_tokens=256)
    checkpointed, twice = _updated(model_directory, lora=lora, micro_batch_tokens=256, gradient_checkpointing=True)
    assert twice == 2 * once > 0
    # The same operations in the same order on the same numbers.
    assert max_difference(plain, checkpointed) == pytest.approx(0.0, abs=1e-7)


def test_compiled_model_gives_the_same_update(model_directory: Path) -> None:
    # Tracing is what could go wrong here; generating code, which takes a C++ compiler and a minute, comes after it.
    torch._dynamo.reset()
    plain, _ = _updated(model_directory)
    graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    compiled, _ = _updated(model_directory, torch_compile_learner=True, torch_compile_learner_dynamo_backend="eager")
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] > graphs
    assert max_difference(plain, compiled) == pytest.approx(0.0, abs=1e-5)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("torch_compile_worker", True, "torch_compile_worker=True does not apply"),
        ("torch_compile_learner_what_to_compile", "complete_update", "micro-batches are made within an update"),
        ("torch_compile_learner_dynamo_backend", "inducter", "'inducter' is unknown; choose one of"),
    ],
)
def test_compile_option_that_cannot_work_is_an_error(
    model_directory: Path, key: str, value: object, message: str
) -> None:
    config = (
        GRPOConfig()
        .environment("EZPoints")
        .language_model(model_path=str(model_directory))
        .generation(max_prompt_tokens=64, max_response_tokens=16)
        .framework(torch_compile_learner=True, **{key: value})
    )
    with pytest.raises(ValueError, match=message):
        config.validate()


def test_gradient_checkpointing_must_be_true_or_false() -> None:
    with pytest.raises(ValueError, match="gradient_checkpointing='yes' must be True or False"):
        GRPOConfig().environment("EZPoints").language_model(gradient_checkpointing="yes").validate()  # type: ignore[arg-type]


def test_critic_is_checkpointed_and_compiled_too(model_directory: Path) -> None:
    group = build_learner_group(
        model_directory,
        critic=True,
        gradient_checkpointing=True,
        torch_compile_learner=True,
        torch_compile_learner_dynamo_backend="eager",
    )
    assert group._learner is not None
    body = group._learner.module[critic_id(DEFAULT_MODULE_ID)].body
    assert body.is_gradient_checkpointing
    assert body._compiled_call_impl is not None
