"""From a user message to the token ids of a prompt, and what a chat template has said already for the assistant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_THINK = "<think>"
# Stands for a message that must not be read as anything else; no control character is trimmed or split by a template.
_PLACEHOLDER = "\x00message\x00"


def encode_prompt(tokenizer: PreTrainedTokenizerBase, user_message: str) -> np.ndarray:
    """Token ids, int32[P], of a conversation with one user message, ready for the assistant's answer.

    What an environment shows never becomes a special token: where a message holds the text of one, as "<|im_end|>", the
    text is spelled out in ordinary tokens, and what belongs to the chat template stays as it is. Any other message is
    encoded as the tokenizer's `apply_chat_template` does.

    Raises:
        ValueError: The tokenizer has no chat template, or cannot spell a special token out.
    """
    if not tokenizer.chat_template:
        raise ValueError(
            f"the tokenizer of {tokenizer.name_or_path!r} has no chat template; use an instruction-tuned model, "
            "or put a chat_template.jinja beside its tokenizer"
        )
    special = set(tokenizer.all_special_ids) | {i for i, t in tokenizer.added_tokens_decoder.items() if t.special}
    if not special.isdisjoint(tokenizer.encode(user_message, add_special_tokens=False)):
        return np.asarray(_spelled_out(tokenizer, user_message, special), np.int32)
    # return_dict=False: transformers 5 otherwise answers with a BatchEncoding.
    ids = _apply(tokenizer, user_message, tokenize=True, return_dict=False)
    return np.asarray(ids, np.int32)


def answer_prefix(tokenizer: PreTrainedTokenizerBase) -> str:
    """What the chat template has written of the assistant's answer, from its "<think>" on; "" where it opens none.

    The templates of some reasoning models end with "<think>", so that a response begins in the middle of the thought.
    """
    opened = _apply(tokenizer, "", tokenize=False)
    unopened = _apply(tokenizer, "", tokenize=False, add_generation_prompt=False)
    generation_prompt = opened[len(unopened) :] if opened.startswith(unopened) else ""
    start = generation_prompt.find(_THINK)
    return generation_prompt[start:] if start >= 0 else ""


def _spelled_out(tokenizer: PreTrainedTokenizerBase, user_message: str, special: set[int]) -> list[int]:
    """The prompt's ids, with every special token of the message as ordinary ones."""
    before, placeholder, after = _apply(tokenizer, _PLACEHOLDER, tokenize=False).partition(_PLACEHOLDER)
    if not placeholder:
        raise ValueError(f"the chat template of {tokenizer.name_or_path!r} does not show the user's message as it is")
    message = tokenizer.encode(user_message, add_special_tokens=False, split_special_tokens=True)
    # A tokenizer without bytes has a token for what it does not know, which also counts as special.
    if left := sorted(special.intersection(message) - {tokenizer.unk_token_id}):
        raise ValueError(
            f"the tokenizer of {tokenizer.name_or_path!r} reads {tokenizer.convert_ids_to_tokens(left)} in an "
            "observation as special tokens, and cannot spell them out"
        )
    around = [tokenizer.encode(text, add_special_tokens=False) for text in (before, after)]
    return [*around[0], *message, *around[1]]


def _apply(tokenizer: PreTrainedTokenizerBase, user_message: str, **options: Any) -> Any:
    conversation = [{"role": "user", "content": user_message}]
    return tokenizer.apply_chat_template(conversation, **{"add_generation_prompt": True, **options})
