"""Weights on their way into a running vLLM engine: our backend of vLLM's weight-transfer API, in the engine's process.

vLLM finds `register` through its plugin entry point, in every one of its processes.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from rllib_gigpo.inference.vllm_names import WEIGHT_TRANSFER_BACKEND

if TYPE_CHECKING:
    import torch


def register() -> None:
    """Makes our backend known to vLLM."""
    from vllm.distributed.weight_transfer.factory import WeightTransferEngineFactory

    # vLLM calls plugins more than once in a process.
    if WEIGHT_TRANSFER_BACKEND not in WeightTransferEngineFactory._registry:
        WeightTransferEngineFactory.register_engine(
            WEIGHT_TRANSFER_BACKEND, "rllib_gigpo.inference.vllm_weight_engine", "FileWeightTransferEngine"
        )


def repack_tied_output_layers(model: torch.nn.Module) -> int:
    """Has output layers that are tied to the embedding compute with the weights that they show; returns how many.

    On the CPU, vLLM packs linear weights into handles of oneDNN. Reloading packs every layer again that gets weights of
    its own, and a tied output layer gets none: it shows the embedding's new weight and computes with the old one.
    """
    from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead
    from vllm.platforms import current_platform

    if not current_platform.is_cpu():
        return 0
    packed = [
        module for module in model.modules() if isinstance(module, ParallelLMHead) and hasattr(module, "cpu_linear")
    ]
    for module in packed:
        module.quant_method.process_weights_after_loading(module)
    return len(packed)


def end_with(pid: int) -> None:
    """Has this process end when another one does, however that ends: one that is killed takes no engine with it."""
    import psutil

    def wait() -> None:
        with suppress(psutil.NoSuchProcess):
            psutil.Process(pid).wait()
        os._exit(1)

    threading.Thread(target=wait, name=f"waits for the end of {pid}", daemon=True).start()
