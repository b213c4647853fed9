"""What is asked of every embedded model: a small, safe directory, a tokenizer that loses nothing, the right format."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import torch
from safetensors import safe_open
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from rllib_gigpo.agent_formats import encode_prompt


def assert_small_and_without_pickle(directory: Path, *, more_files: Iterable[str] = ()) -> None:
    """The directory holds an ordinary model in float32 safetensors, and no more than 2 MB."""
    files = {path.name: path.stat().st_size for path in directory.iterdir()}
    assert sum(files.values()) < 2_000_000
    assert set(files) == {
        "README.md",
        "chat_template.jinja",
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
        *more_files,
    }
    with safe_open(directory / "model.safetensors", "pt") as weights:
        assert {weights.get_slice(name).get_dtype() for name in weights.keys()} == {"F32"}  # noqa: SIM118


def assert_nothing_is_lost(tokenizer: PreTrainedTokenizerBase, texts: Iterable[str]) -> None:
    """Encoding and decoding gives the same texts."""
    for text in texts:
        assert tokenizer.decode(tokenizer.encode(text, add_special_tokens=False)) == text


def greedy_response(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, user_message: str) -> str:
    """The most probable response, token by token, of at most 48 tokens."""
    inputs = torch.from_numpy(encode_prompt(tokenizer, user_message)).long()[None]
    output = model.generate(inputs, attention_mask=torch.ones_like(inputs), do_sample=False, max_new_tokens=48)
    return tokenizer.decode(output[0, inputs.shape[1] :], skip_special_tokens=True)
