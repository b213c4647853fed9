"""Models and learners of the tests that need a CUDA device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.learner.learner_group import LearnerGroup
from transformers import LlamaConfig, LlamaForCausalLM

from rllib_gigpo.rl_modules.lora import has_adapter
from rllib_gigpo.rows import TokenRows
from tests.learner_cases import batch_of, build_learner_group
from tests.tiny_models import tiny_tokenizer

SMOLLM2 = Path(__file__).parents[1] / "models" / "smollm2-135m-instruct"


def learner_on_gpu(model_directory: Path, **settings: Any) -> LearnerGroup:
    """`build_learner_group` on the first CUDA device; without `num_learners` in this process."""
    return build_learner_group(model_directory, num_gpus_per_learner=1, **settings)


def module_of(group: LearnerGroup) -> Any:
    """The only module of a group in this process."""
    assert group._learner is not None
    return group._learner.module[DEFAULT_MODULE_ID]


def update(group: LearnerGroup, rows: TokenRows) -> dict[str, float]:
    """Trains a group in this process on the rows, and returns its metrics."""
    (result,) = group.update(batch=batch_of(rows), timesteps={})
    return {name: float(stats.peek()) for name, stats in result[DEFAULT_MODULE_ID].items()}


@torch.no_grad()
def perturb(module: Any, seed: int) -> None:
    """Adds noise to all trained weights of a module that changes its log-probabilities clearly: 0.05 of each tensor's
    spread, and 0.05 for those without any, such as the half of a new adapter that is 0. With six times that, two
    implementations of a pretrained model in bfloat16 differ by 0.4 nats."""
    rng = torch.Generator().manual_seed(seed)
    for weight in module.lm.parameters():
        if has_adapter(module.lm) and not weight.requires_grad:
            continue
        spread = float(weight.float().std()) if weight.numel() > 1 else 0.0
        noise = torch.randn(weight.shape, generator=rng) * (0.05 * spread or 0.05)
        weight.add_(noise.to(weight.device, weight.dtype))


def equal_rows(count: int, *, prompt: int, response: int, vocabulary: int) -> TokenRows:
    """Rows of random tokens, all with prompts and responses of the same number of them."""
    rng = np.random.default_rng(0)
    return TokenRows.from_lists(
        list(rng.integers(3, vocabulary, (count, prompt))),
        list(rng.integers(3, vocabulary, (count, response))),
        [np.full(response, -5.0, np.float32)] * count,
        advantages=rng.standard_normal(count),
    )


def save_model_of_smollm2s_size(directory: Path) -> Path:
    """Writes a random Llama of 135 million weights and a tokenizer of bytes, for where SmolLM2 is not there."""
    tokenizer = tiny_tokenizer()
    config = LlamaConfig(
        vocab_size=49_152,
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=30,
        num_attention_heads=9,
        num_key_value_heads=3,
        head_dim=64,
        max_position_embeddings=8192,
        tie_word_embeddings=True,
        # Large enough that other weights give clearly other log-probabilities.
        initializer_range=0.05,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        LlamaForCausalLM(config).save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return directory
