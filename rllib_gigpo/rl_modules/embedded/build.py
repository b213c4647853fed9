"""A tiny Qwen2 from nothing, and its directory on disk."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import PreTrainedTokenizerBase, Qwen2Config, Qwen2ForCausalLM

# Long enough for prompts with some history; the rotary embedding needs no weights for it.
MAX_POSITIONS = 1024


def build_causal_lm(
    tokenizer: PreTrainedTokenizerBase,
    *,
    seed: int,
    hidden_size: int = 128,
    intermediate_size: int = 384,
    num_layers: int = 2,
    num_heads: int = 4,
    num_key_value_heads: int = 2,
) -> Qwen2ForCausalLM:
    """A randomly initialised float32 Qwen2 with tied embeddings, one row of the embedding per token.

    The same seed gives the same weights; torch's global generator is left as it was. The defaults have heads of 32
    numbers, the smallest that vLLM's CPU kernels take.

    Raises:
        ValueError: `hidden_size` is not a multiple of `num_heads`.
    """
    if hidden_size % num_heads:
        raise ValueError(f"hidden_size is {hidden_size}; it must be a multiple of num_heads, {num_heads}")
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=hidden_size,
        intermediate_size=intermediate_size,
        num_hidden_layers=num_layers,
        num_attention_heads=num_heads,
        num_key_value_heads=num_key_value_heads,
        max_position_embeddings=MAX_POSITIONS,
        tie_word_embeddings=True,
        # Wider than Qwen's 0.02, which is meant for far larger matrices and starts a model of this size too flat.
        initializer_range=0.05,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        dtype=torch.float32,
    )
    # transformers initialises from torch's global generator.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Qwen2ForCausalLM(config)
    model.generation_config.bos_token_id = None
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    return model


def save_model(directory: Path, model: Qwen2ForCausalLM, tokenizer: PreTrainedTokenizerBase) -> None:
    """Writes an ordinary Hugging Face model directory: `AutoModelForCausalLM` and `AutoTokenizer` load it."""
    directory.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
