"""Computing layers again instead of keeping their activations: the same gradients, from less memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rllib_gigpo.learners.response_scores import micro_batch_tensors
from rllib_gigpo.rl_modules.causal_lm_rl_module import causal_lm_spec
from rllib_gigpo.rl_modules.critic_rl_module import critic_spec
from rllib_gigpo.rl_modules.lora import LoraSettings
from rllib_gigpo.rows import TokenRows
from tests.tiny_models import save_tiny_model

pytestmark = pytest.mark.unit

ROWS = TokenRows.from_lists(
    [np.arange(3, 40), np.arange(5, 30)], [np.arange(7, 12), np.arange(9, 20)], [np.zeros(5), np.zeros(11)]
)


def gradients(spec: Any, *, recompute: bool) -> tuple[dict[str, torch.Tensor], int]:
    """The gradient of each trained weight, and the bytes that were kept for them."""
    spec.model_config["gradient_checkpointing"] = recompute
    module = spec.build()
    kept = 0

    def count(tensor: torch.Tensor) -> torch.Tensor:
        nonlocal kept
        kept += tensor.nbytes
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
        outputs = module.forward_train(micro_batch_tensors(ROWS, pad_id=0, device="cpu"))
        loss = sum(output.float().square().mean() + output.float().sum() for output in outputs.values())
    loss.backward()
    return {name: p.grad for name, p in module.named_parameters() if p.requires_grad and p.grad is not None}, kept


@pytest.mark.parametrize("kind", ["policy", "adapter", "critic"])
def test_the_gradients_are_those_of_the_plain_pass_and_less_is_kept(kind: str, tmp_path: Path) -> None:
    lora = LoraSettings(4, None, "all-linear", seed=0) if kind == "adapter" else None
    spec = causal_lm_spec(str(save_tiny_model(tmp_path)), lora=lora)
    if kind == "critic":
        spec = critic_spec(spec)
    plain, kept = gradients(spec, recompute=False)
    again, kept_again = gradients(spec, recompute=True)
    assert plain.keys() == again.keys()
    assert plain
    # The same operations in the same order.
    assert all(torch.allclose(plain[name], again[name], rtol=1e-5, atol=1e-6) for name in plain)
    assert kept_again < 0.6 * kept


def test_a_module_for_inference_has_nothing_to_compute_again(tmp_path: Path) -> None:
    spec = causal_lm_spec(str(save_tiny_model(tmp_path)))
    spec.model_config["gradient_checkpointing"] = True
    spec.inference_only = True
    assert not spec.build().lm.is_gradient_checkpointing
