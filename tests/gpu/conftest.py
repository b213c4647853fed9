"""Every test in here needs a CUDA device; without one all are skipped, for one reason."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def _cuda_device() -> None:
    import torch

    if not torch.cuda.is_available():
        pytest.skip("no CUDA device that torch can use; `rllib doctor` says why")


@pytest.fixture(scope="module", autouse=True)
def _cluster(_cuda_device: None) -> Iterator[None]:
    """RLlib asks Ray for the devices even of a learner in this process. On a machine with more GPUs, one is used."""
    import ray

    ray.init(num_cpus=4, num_gpus=1, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.fixture(autouse=True)
def _memory_given_back(_cluster: None) -> Iterator[None]:
    """What PyTorch keeps of a test's tensors would be missing to the next test's engine."""
    yield
    import torch

    gc.collect()
    torch.cuda.empty_cache()


@pytest.fixture(scope="session")
def model_directory(_cuda_device: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """SmolLM2-135M where `make smollm2` has put it, else a random model of its size."""
    from tests.gpu_cases import SMOLLM2, save_model_of_smollm2s_size

    if (SMOLLM2 / "model.safetensors").is_file():
        return SMOLLM2
    return save_model_of_smollm2s_size(tmp_path_factory.mktemp("smollm2-size"))
