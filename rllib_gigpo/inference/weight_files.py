"""Weights on their way to an engine in another process of the same machine: files in shared memory."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rllib_gigpo.rl_modules.lora import save_adapter
from rllib_gigpo.rl_modules.weights import array_to_tensor

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_SHARED_MEMORY = Path("/dev/shm")
_VERSION = "weights_version"


@contextmanager
def _folder() -> Iterator[Path]:
    """A new folder, in shared memory where the machine has some, gone after the block."""
    folder = tempfile.mkdtemp(prefix="rllib_gigpo_", dir=_SHARED_MEMORY if _SHARED_MEMORY.is_dir() else None)
    try:
        yield Path(folder)
    finally:
        shutil.rmtree(folder)


@contextmanager
def weights_file(weights: Mapping[str, np.ndarray], version: int) -> Iterator[Path]:
    """A safetensors file of weights by name, gone after the block; bfloat16 comes as uint16 and is stored as it is."""
    from safetensors.torch import save_file

    with _folder() as folder:
        path = folder / "weights.safetensors"
        tensors = {name: array_to_tensor(array).contiguous() for name, array in weights.items()}
        save_file(tensors, path, metadata={_VERSION: str(version)})
        yield path


def check_version(metadata: Mapping[str, str] | None, version: int, path: str) -> None:
    """Raises ValueError where a file of weights, of which this is the metadata, is not of `version`."""
    found = (metadata or {}).get(_VERSION)
    if found != str(version):
        raise ValueError(f"{path} holds weights of version {found}, expected version {version}")


@contextmanager
def adapter_folder(lm: PreTrainedModel, weights: Mapping[str, np.ndarray]) -> Iterator[Path]:
    """A PEFT directory of an adapter's weights by their names in `lm`, gone after the block."""
    with _folder() as folder:
        save_adapter(lm, folder, {name: array_to_tensor(array) for name, array in weights.items()})
        yield folder
