"""A small tokenizer in the shape of Qwen's: same special tokens, same chat layout, same splitting into words."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, trainers
from transformers import Qwen2Tokenizer

END_OF_TEXT = "<|endoftext|>"
TURN_START = "<|im_start|>"
TURN_END = "<|im_end|>"
VISION_START, VISION_END = "<|vision_start|>", "<|vision_end|>"
IMAGE_PAD, VIDEO_PAD = "<|image_pad|>", "<|video_pad|>"
ROLES = ("system", "user", "assistant")

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

# A message is a text, or a list of parts, each an image or a text, as in Qwen2.5-VL.
IMAGE_CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{% endif %}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def build_tokenizer(
    texts: Sequence[str],
    *,
    vocab_size: int = 640,
    tags: Sequence[str] = ("<think>", "</think>", "<action>", "</action>"),
    with_images: bool = False,
) -> Qwen2Tokenizer:
    """Trains a byte-level BPE tokenizer on `texts`.

    Every byte is in its vocabulary, so it encodes any text without loss (up to Unicode's normal form C). A digit is
    always a token of its own. `tags` become one token each; they are not "special", so decoding with
    `skip_special_tokens=True` keeps them. The end-of-sequence token is `<|im_end|>`, the padding token `<|endoftext|>`.

    Args:
        texts: What the model is to read and write: user messages, responses. The same texts give the same tokenizer.
        vocab_size: Upper bound; few short texts fill less.
        tags: Strings of the response grammar.
        with_images: Adds the special tokens that stand for images, and a chat template that writes them.

    Raises:
        RuntimeError: A text does not survive encoding and decoding.
    """
    # AutoTokenizer loads the tokenizer of any Qwen2 model as Qwen2Tokenizer, whatever its files say, and that puts its
    # own splitting into words in the place of theirs: merges trained on any other splitting would never be used.
    qwen2 = Qwen2Tokenizer().backend_tokenizer
    trained = Tokenizer(models.BPE())
    trained.normalizer = qwen2.normalizer
    trained.pre_tokenizer = qwen2.pre_tokenizer
    vision = [VISION_START, VISION_END, IMAGE_PAD, VIDEO_PAD] if with_images else []
    special = [END_OF_TEXT, TURN_START, TURN_END, *vision]
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size - len(tags),
        min_frequency=2,
        special_tokens=special,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    # The tags have tokens of their own; no merge should be spent on their letters.
    any_tag = re.compile("|".join(map(re.escape, [*tags, *special])))
    plain = [part for text in texts for part in any_tag.split(text)]
    trained.train_from_iterator([*plain, *ROLES, *ROLES], trainer)

    bpe = json.loads(trained.to_str())["model"]
    tokenizer = Qwen2Tokenizer(
        vocab=bpe["vocab"],
        merges=[tuple(merge) for merge in bpe["merges"]],
        eos_token=TURN_END,
        pad_token=END_OF_TEXT,
        padding_side="left",
        extra_special_tokens=[TURN_START, *vision],
        clean_up_tokenization_spaces=False,
    )
    tokenizer.add_tokens([AddedToken(tag, normalized=False, special=False) for tag in tags])
    tokenizer.chat_template = IMAGE_CHAT_TEMPLATE if with_images else CHAT_TEMPLATE
    _require_round_trip(tokenizer, texts)
    return tokenizer


def _require_round_trip(tokenizer: Qwen2Tokenizer, texts: Sequence[str]) -> None:
    for text in dict.fromkeys(texts):
        decoded = tokenizer.decode(tokenizer.encode(text, add_special_tokens=False))
        if decoded != text:
            raise RuntimeError(f"the tokenizer turns {text!r} into {decoded!r}")
