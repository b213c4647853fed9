"""Tokens with a meaning for whoever samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


def eos_token_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """Every end-of-sequence id that the generation config or the tokenizer names."""
    generation_config = getattr(model, "generation_config", None)
    ids: set[int] = set()
    for named in (getattr(generation_config, "eos_token_id", None), tokenizer.eos_token_id):
        if named is not None:
            ids.update(named if isinstance(named, list | tuple | set) else [named])
    return frozenset(ids)
