"""Plain vLLM, without this package, reads the model directories and adapters that training writes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from rllib_gigpo.rl_modules.causal_lm_rl_module import HUGGINGFACE_FOLDER, CausalLMRLModule, causal_lm_spec
from rllib_gigpo.rl_modules.lora import LoraSettings
from rllib_gigpo.rl_modules.weights import get_weights, set_weights
from tests.tiny_models import save_tiny_model
from tests.vllm_cases import needs_vllm

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900), needs_vllm]

PLAIN_VLLM = Path(__file__).with_name("plain_vllm.py")
IDS = np.random.default_rng(0).integers(3, 259, 24).tolist()


def changed(module: CausalLMRLModule) -> CausalLMRLModule:
    """The module with noise on its weights, as after training."""
    rng = np.random.default_rng(1)
    weights = get_weights(module.lm)
    set_weights(module.lm, {k: w + 0.1 * rng.standard_normal(w.shape).astype(np.float32) for k, w in weights.items()})
    return module


def saved(module: CausalLMRLModule, folder: Path) -> Path:
    """What a checkpoint holds of the module, which is what `rllib export` copies."""
    module.save_to_path(folder)
    return folder / HUGGINGFACE_FOLDER


@torch.no_grad()
def log_probs(module: CausalLMRLModule) -> list[float]:
    """Of every token behind the first."""
    ids = torch.tensor([IDS])
    return module.lm.eval()(input_ids=ids).logits.log_softmax(-1)[0, :-1].gather(1, ids[0, 1:, None])[:, 0].tolist()


def test_plain_vllm_reads_an_exported_model_and_an_exported_adapter(tmp_path: Path) -> None:
    whole = changed(causal_lm_spec(str(save_tiny_model(tmp_path / "base"))).build())
    model = saved(whole, tmp_path / "whole")
    with_adapter = changed(causal_lm_spec(str(model), lora=LoraSettings(rank=4, alpha=8.0)).build())
    adapter = saved(with_adapter, tmp_path / "adapter")

    # No plugins: nothing of this package is loaded.
    environment = {**os.environ, "VLLM_PLUGINS": "", "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_NO_USAGE_STATS": "1"}
    command = [sys.executable, str(PLAIN_VLLM), str(model), str(adapter), *map(str, IDS)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lists = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[-")]
    # Float32, in another order of sums. Without the adapter, or with other weights, they are whole units apart.
    np.testing.assert_allclose(lists, [log_probs(whole), log_probs(with_adapter)], rtol=0, atol=1e-4)
    assert np.abs(np.subtract(*lists)).max() > 0.1
