"""From a user message to the token ids of a prompt, and what a chat template has said already for the assistant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from rllib_gigpo.agent_formats.image_marks import split_at_marks
from rllib_gigpo.agent_formats.line_encoding import encode_text

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_THINK = "<think>"

# A user message: a text, or texts and the indices of images in their order.
Message = str | Sequence[str | int]
# Worked examples, as earlier turns of the conversation: (user message, answer of the assistant).
Examples = Sequence[tuple[str, str]]

# Of each tokenizer, its chat template and the answer that this begins.
_answer_prefixes: WeakKeyDictionary[PreTrainedTokenizerBase, tuple[Any, str]] = WeakKeyDictionary()


def encode_prompt(tokenizer: PreTrainedTokenizerBase, user_message: str, examples: Examples = ()) -> np.ndarray:
    """Token ids, int32[P], of a conversation that ends with a user message, ready for the assistant's answer.

    What an environment shows never becomes a special token: where a message holds the text of one, as "<|im_end|>", the
    text is spelled out in ordinary tokens, and what belongs to the chat template stays as it is. Any other message is
    encoded as the tokenizer's `apply_chat_template` does.

    Raises:
        ValueError: The tokenizer has no chat template, or cannot spell a special token out.
    """
    return _encode(tokenizer, user_message, examples)


def encode_prompt_with_images(
    tokenizer: PreTrainedTokenizerBase, user_message: str, num_images: int, examples: Examples = ()
) -> tuple[np.ndarray, list[int]]:
    """As `encode_prompt`, of a message with the marks of images (see `image_marks`).

    Returns:
        The ids, int32[P], with whatever the chat template writes for an image, as a rule one placeholder; and the
        indices of the images that are shown, in their order.

    Raises:
        ValueError: As `encode_prompt`.
    """
    parts = split_at_marks(user_message, num_images)
    shown = [part for part in parts if isinstance(part, int)]
    return _encode(tokenizer, parts if shown else user_message, examples), shown


def answer_prefix(tokenizer: PreTrainedTokenizerBase) -> str:
    """What the chat template has written of the assistant's answer, from its "<think>" on; "" where it opens none.

    The templates of some reasoning models end with "<think>", so that a response begins in the middle of the thought.
    """
    template, prefix = _answer_prefixes.get(tokenizer, (None, ""))
    if template is None or template != tokenizer.chat_template:
        prefix = _begun_answer(tokenizer)
        _answer_prefixes[tokenizer] = (tokenizer.chat_template, prefix)
    return prefix


def _begun_answer(tokenizer: PreTrainedTokenizerBase) -> str:
    opened = _apply(tokenizer, "", tokenize=False)
    unopened = _apply(tokenizer, "", tokenize=False, add_generation_prompt=False)
    generation_prompt = opened[len(unopened) :] if opened.startswith(unopened) else ""
    start = generation_prompt.find(_THINK)
    return generation_prompt[start:] if start >= 0 else ""


def _encode(tokenizer: PreTrainedTokenizerBase, message: Message, examples: Examples) -> np.ndarray:
    if not tokenizer.chat_template:
        raise ValueError(
            f"the tokenizer of {tokenizer.name_or_path!r} has no chat template; use an instruction-tuned model, "
            "or put a chat_template.jinja beside its tokenizer"
        )
    special = set(tokenizer.all_special_ids) | {i for i, t in tokenizer.added_tokens_decoder.items() if t.special}
    texts = [part for part in _parts(message) if isinstance(part, str)]
    if any(not special.isdisjoint(encode_text(tokenizer, text)) for text in texts):
        return np.asarray(_spelled_out(tokenizer, message, examples, special), np.int32)
    return np.asarray(encode_text(tokenizer, _apply(tokenizer, message, examples, tokenize=False)), np.int32)


def _spelled_out(
    tokenizer: PreTrainedTokenizerBase, message: Message, examples: Examples, special: set[int]
) -> list[int]:
    """The prompt's ids, with every special token of the message's texts as ordinary ones; examples stay as they are."""
    parts = _parts(message)
    # For texts that must not be read as anything else; no control character is trimmed or split by a template.
    stand_ins = [part if isinstance(part, int) else f"\x00message {i}\x00" for i, part in enumerate(parts)]
    shown = str(stand_ins[0]) if isinstance(message, str) else stand_ins
    rest = _apply(tokenizer, shown, examples, tokenize=False)
    ids: list[int] = []
    for part, stand_in in zip(parts, stand_ins, strict=True):
        if isinstance(part, int):
            continue
        before, found, rest = rest.partition(stand_in)
        if not found:
            raise ValueError(
                f"the chat template of {tokenizer.name_or_path!r} does not show the user's message as it is"
            )
        ids += tokenizer.encode(before, add_special_tokens=False)
        ids += _without_special(tokenizer, part, special)
    return [*ids, *tokenizer.encode(rest, add_special_tokens=False)]


def _without_special(tokenizer: PreTrainedTokenizerBase, text: str, special: set[int]) -> list[int]:
    """The ids of a text, in which no special token is read."""
    ids: list[int] = tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True)
    # A tokenizer without bytes has a token for what it does not know, which also counts as special.
    if left := sorted(special.intersection(ids) - {tokenizer.unk_token_id}):
        raise ValueError(
            f"the tokenizer of {tokenizer.name_or_path!r} reads {tokenizer.convert_ids_to_tokens(left)} in an "
            "observation as special tokens, and cannot spell them out"
        )
    return ids


def _parts(message: Message) -> list[str | int]:
    return [message] if isinstance(message, str) else list(message)


def _apply(tokenizer: PreTrainedTokenizerBase, message: Message, examples: Examples = (), **options: Any) -> Any:
    content: Any = message
    if not isinstance(message, str):
        content = [{"type": "image"} if isinstance(part, int) else {"type": "text", "text": part} for part in message]
    conversation: list[dict[str, Any]] = []
    for asked, answered in examples:
        conversation += [{"role": "user", "content": asked}, {"role": "assistant", "content": answered}]
    conversation.append({"role": "user", "content": content})
    return tokenizer.apply_chat_template(conversation, **{"add_generation_prompt": True, **options})
