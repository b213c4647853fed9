"""A tiny model for one game from that for another: what it has learnt of reading goes along."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerBase, Qwen2ForCausalLM

from rllib_gigpo.rl_modules.embedded.build import build_causal_lm


def transplant(donor: Path, tokenizer: PreTrainedTokenizerBase, *, seed: int) -> Qwen2ForCausalLM:
    """A model for `tokenizer` with the weights of an embedded model.

    A token that both vocabularies hold keeps its embedding. One that only `tokenizer` has gets a random one.

    Args:
        donor: Directory of a model with the sizes that `build_causal_lm` has by default.
        tokenizer: Of the new model.
        seed: Of the random embeddings.

    Raises:
        RuntimeError: The donor's layers have other shapes.
    """
    model = build_causal_lm(tokenizer, seed=seed)
    source = AutoModelForCausalLM.from_pretrained(donor, dtype=torch.float32)
    embeddings = model.get_input_embeddings().weight.detach().clone()
    old_ids = AutoTokenizer.from_pretrained(donor).get_vocab()
    old_embeddings = source.get_input_embeddings().weight.detach()
    for token, new_id in tokenizer.get_vocab().items():
        if token in old_ids:
            embeddings[new_id] = old_embeddings[old_ids[token]]
    weights = source.state_dict()
    for name in ("model.embed_tokens.weight", "lm_head.weight"):  # tied: one matrix by two names
        weights[name] = embeddings
    model.load_state_dict(weights)
    return model
