"""On CUDA too, recomputed layers, compiled models, an offloaded reference and shared prefixes change what an update
costs, not what it does."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rllib_gigpo.algorithms.group_policy.scoring import OLD_LOGP, score_rows
from rllib_gigpo.env_adapters import embedded_model_path
from rllib_gigpo.rows import TokenRows
from tests.gpu_cases import learner_on_gpu, update
from tests.learner_cases import max_difference, random_rows, sharing_rows, weights_of
from tests.tiny_models import save_tiny_model

pytestmark = pytest.mark.gpu

Record = Callable[[str, object], None]


@pytest.fixture(scope="module")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("model"))


def _updated(directory: Path, rows: TokenRows, **settings: Any) -> tuple[dict[str, np.ndarray], int]:
    """The weights after one update, and the most bytes that tensors took in it."""
    group = learner_on_gpu(directory, **settings)
    before = weights_of(group)
    torch.cuda.reset_peak_memory_stats()
    update(group, rows)
    after = weights_of(group)
    assert max_difference(before, after) > 1e-3, "the update moved the weights"
    return after, torch.cuda.max_memory_allocated()


def test_gradient_checkpointing_gives_the_same_update_with_less_memory(
    tiny_model: Path, record_property: Record
) -> None:
    rows = random_rows(400)
    plain, most = _updated(tiny_model, rows, micro_batch_tokens=2**14)
    checkpointed, less = _updated(tiny_model, rows, micro_batch_tokens=2**14, gradient_checkpointing=True)
    record_property("weights_gap_max", max_difference(plain, checkpointed))
    record_property("peak_memory_ratio", less / most)
    assert max_difference(plain, checkpointed) <= 1e-5
    assert less < most


@pytest.mark.timeout(400)
def test_a_compiled_model_gives_the_same_update(tiny_model: Path, record_property: Record) -> None:
    """By inductor, which generates code: on the CPU only tracing is tried."""
    torch._dynamo.reset()
    rows = random_rows(12)
    plain, _ = _updated(tiny_model, rows)
    graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    compiled, _ = _updated(
        tiny_model, rows, torch_compile_learner=True, torch_compile_learner_dynamo_backend="inductor"
    )
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] > graphs
    record_property("weights_gap_max", max_difference(plain, compiled))
    assert max_difference(plain, compiled) <= 1e-5


def test_an_offloaded_reference_gives_the_same_update_and_leaves_the_device(
    model_directory: Path, record_property: Record
) -> None:
    rows = random_rows(30)
    weights, left = {}, {}
    for offload in (False, True):
        group = learner_on_gpu(model_directory, kl_coeff=0.5, lr=0.01, offload_reference=offload)
        before = weights_of(group)
        update(group, rows)
        weights[offload] = weights_of(group)
        left[offload] = torch.cuda.memory_allocated()
        of_model = sum(array.nbytes for array in weights[offload].values())
        assert max_difference(before, weights[offload]) > 1e-4
        del group
        gc.collect()
    record_property("weights_gap_max", max_difference(weights[False], weights[True]))
    record_property("bytes_freed_of_reference", (left[False] - left[True]) / of_model)
    assert max_difference(weights[False], weights[True]) <= 1e-5
    assert left[False] - left[True] > 0.9 * of_model


@pytest.mark.parametrize("model", ["tiny", "embedded"])
def test_shared_prefixes_give_the_weights_and_metrics_of_the_plain_update(
    model: str, tiny_model: Path, record_property: Record
) -> None:
    directory = tiny_model if model == "tiny" else embedded_model_path("EZPoints")
    rows = sharing_rows(30)
    plain, shared = (
        learner_on_gpu(directory, share_prefixes=share, micro_batch_tokens=400, kl_coeff=0.5) for share in (False, True)
    )
    before = weights_of(plain)
    expected, metrics = update(plain, rows), update(shared, rows)
    assert metrics["shared_prefix_share"] > 0.3
    assert expected["shared_prefix_share"] == 0
    for name in ("policy_loss", "gradient_norm", "kl_to_reference"):
        assert metrics[name] == pytest.approx(expected[name], rel=1e-3, abs=1e-5)
    gap = max_difference(weights_of(plain), weights_of(shared))
    record_property("weights_gap_max", gap)
    assert gap <= 1e-4
    assert max_difference(before, weights_of(plain)) > 1e-3


def test_shared_prefixes_in_bfloat16_are_as_near_to_float32_as_the_plain_passes(
    model_directory: Path, record_property: Record
) -> None:
    rows = sharing_rows(30)

    def scores(dtype: str, share: bool) -> np.ndarray:
        group = learner_on_gpu(model_directory, dtype=dtype, share_prefixes=share, micro_batch_tokens=4096, lr=1e-6)
        scored = score_rows(group, rows, [OLD_LOGP]).old_logp
        assert scored is not None
        return scored

    exact = scores("float32", False)
    plain, shared = (float(np.abs(scores("bfloat16", share) - exact).mean()) for share in (False, True))
    record_property("plain_gap_mean", plain)
    record_property("shared_gap_mean", shared)
    # A token that sees another row's is whole units away.
    assert 0 < shared <= 1.5 * plain
