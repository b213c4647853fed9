"""From a user message to the token ids of a prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def encode_prompt(tokenizer: PreTrainedTokenizerBase, user_message: str) -> np.ndarray:
    """Token ids, int32[P], of a conversation with one user message, ready for the assistant's answer.

    Raises:
        ValueError: The tokenizer has no chat template.
    """
    if not tokenizer.chat_template:
        raise ValueError(
            f"the tokenizer of {tokenizer.name_or_path!r} has no chat template; use an instruction-tuned model, "
            "or put a chat_template.jinja beside its tokenizer"
        )
    # return_dict=False: transformers 5 otherwise answers with a BatchEncoding.
    ids = tokenizer.apply_chat_template(
        [{"role": "user", "content": user_message}], add_generation_prompt=True, tokenize=True, return_dict=False
    )
    return np.asarray(ids, np.int32)
