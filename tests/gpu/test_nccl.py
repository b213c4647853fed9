"""A learner in a process of its own, over nccl: plain, wrapped in DDP and sharded (FSDP2) it is the one on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
import torch
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchDDPRLModule

from rllib_gigpo.algorithms.group_policy.scoring import OLD_LOGP, score_rows
from rllib_gigpo.algorithms.group_policy.weight_delivery import prove_weights
from rllib_gigpo.inference.weights_probe import probe_gap
from tests.gpu_cases import learner_on_gpu
from tests.learner_cases import batch_of, build_learner_group, max_difference, random_rows, weights_of
from tests.tiny_models import save_tiny_model

pytestmark = pytest.mark.gpu

KINDS = ("plain", "ddp", "fsdp", "fsdp-bfloat16")


@pytest.mark.parametrize("kind", KINDS)
def test_a_learner_over_nccl_takes_the_step_of_one_on_the_cpu(
    kind: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    directory = save_tiny_model(tmp_path / "model")
    rows = random_rows(30)
    settings: dict[str, Any] = {"micro_batch_tokens": 150, "kl_coeff": 0.5, "grad_clip": 0.1}
    on_cpu = build_learner_group(directory, **settings)
    before = weights_of(on_cpu)
    sharding = {"sharding": "fsdp", "mixed_precision": kind == "fsdp-bfloat16"} if kind.startswith("fsdp") else {}
    on_gpu = learner_on_gpu(directory, num_learners=1, **settings, **sharding)
    try:
        if kind == "ddp":
            _each(on_gpu, _wrap_in_ddp)
        backend, device, wrapper = _each(on_gpu, _what_it_is)
        assert (backend, device) == ("nccl", "cuda")
        assert wrapper == {"plain": "", "ddp": "DDP"}.get(kind, "FSDP")
        on_cpu.update(batch=batch_of(rows), timesteps={})
        on_gpu.update(batch_refs=[ray.put(batch_of(rows))], timesteps={})

        after, expected = weights_of(on_gpu), weights_of(on_cpu)
        record_property("weights_gap_max", max_difference(after, expected))
        moved = _distance(expected, before)
        record_property("weights_gap_of_step", _distance(after, expected) / moved)
        assert moved > 1e-3
        # bfloat16 has 8 bits of mantissa: gradients are off by a few percent. float32 sums come in another order.
        assert _distance(after, expected) < (0.1 if kind == "fsdp-bfloat16" else 1e-3) * moved

        if kind != "fsdp-bfloat16":
            found, wanted = (score_rows(group, rows, [OLD_LOGP]).old_logp for group in (on_gpu, on_cpu))
            assert found is not None and wanted is not None
            record_property("logp_gap_max", float(np.abs(found - wanted).max()))
            np.testing.assert_allclose(found, wanted, atol=1e-3)
            assert probe_gap(prove_weights(on_gpu), prove_weights(on_cpu)) <= 1e-3
    finally:
        on_gpu.shutdown()


def _each(group: Any, function: Callable[[Any], Any]) -> Any:
    """What a function of the only remote learner returns."""
    (result,) = group.foreach_learner(function)
    return result.get()


def _wrap_in_ddp(learner: Any) -> None:
    """What RLlib does from two learners on: with one GPU there is only one."""
    wrapped = TorchDDPRLModule(learner.module[DEFAULT_MODULE_ID], **learner.config.torch_ddp_kwargs)
    learner.module.add_module(DEFAULT_MODULE_ID, wrapped, override=True)


def _what_it_is(learner: Any) -> tuple[str, str, str]:
    """Backend of the process group, device of the weights, and what the model is wrapped in."""
    module = learner.module[DEFAULT_MODULE_ID]
    network = module.unwrapped().network
    wrapper = "DDP" if isinstance(module, TorchDDPRLModule) else ""
    wrapper += "FSDP" if isinstance(network, torch.distributed.fsdp.FSDPModule) else ""
    return torch.distributed.get_backend(), next(network.parameters()).device.type, wrapper


def _distance(first: dict[str, np.ndarray], second: dict[str, np.ndarray]) -> float:
    """Euclidean, of two sets of weights with the same names."""
    assert first.keys() == second.keys()
    return float(np.sqrt(sum(np.square(first[name] - second[name]).sum(dtype=np.float64) for name in first)))
