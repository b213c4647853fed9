"""Token ids of a text from those of its lines, which are remembered: what is shown again is not encoded again.

The ids are exactly those of the whole text. Byte-level BPE, as GPT-2, Llama 3, Qwen and SmolLM have it, splits a text
into words before it merges anything, and none of these goes on behind a lone newline between two characters other than
white space: there a text can be taken apart. Any other tokenizer encodes the whole text each time.
"""

from __future__ import annotations

import json
import re
import string
import sys
from array import array
from itertools import product
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# Not where white space is next to the newline: what becomes of a run of it depends on what follows the run.
_BETWEEN_LINES = re.compile(r"(?<=\S\n)(?=\S)")
# Of what a process remembers of a tokenizer, with which it begins anew then. Lines may be of any length.
_BYTES_KEPT = 32 * 2**20
_WORD_SPLITTERS = {"Split", "ByteLevel", "Digits"}
# Characters of every kind that the patterns of word splitters tell apart, and those that one may name: a word of GPT-4o
# goes on with "/" behind a newline.
_PROBES = (*string.punctuation, "a", "Z", "1", "'s", "é", "字", "あ", "한", "。", "½", "\u0301", "😀")


class _Memory:
    """What is remembered of a tokenizer.

    Attributes:
        num_tokens: Of its vocabulary: with another one, nothing of this counts.
        by_line: Whether the ids of its lines are those of a text.
        lines: Ids by line, int32.
        num_bytes: Of lines and their ids.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase):
        self.num_tokens = len(tokenizer)
        self.by_line = _splits_at_newlines(tokenizer)
        self.lines: dict[str, array[int]] = {}
        self.num_bytes = 0

    def keep(self, line: str, ids: array[int]) -> None:
        if self.num_bytes >= _BYTES_KEPT:
            self.lines.clear()
            self.num_bytes = 0
        self.lines[line] = ids
        self.num_bytes += sys.getsizeof(line) + sys.getsizeof(ids)


_memories: WeakKeyDictionary[PreTrainedTokenizerBase, _Memory] = WeakKeyDictionary()


def encode_text(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """What `tokenizer.encode(text, add_special_tokens=False)` returns."""
    memory = _memories.get(tokenizer)
    if memory is None or memory.num_tokens != len(tokenizer):
        memory = _memories[tokenizer] = _Memory(tokenizer)
    if not memory.by_line:
        whole: list[int] = tokenizer.encode(text, add_special_tokens=False)
        return whole
    ids: list[int] = []
    for line in _BETWEEN_LINES.split(text):
        of_line = memory.lines.get(line)
        if of_line is None:
            of_line = array("i", tokenizer.encode(line, add_special_tokens=False))
            memory.keep(line, of_line)
        ids += of_line
    return ids


def _splits_at_newlines(tokenizer: PreTrainedTokenizerBase) -> bool:
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None or type(backend.model).__name__ != "BPE":
        return False
    if any(part["type"] != "NFC" for part in _parts(backend.normalizer, "normalizers")):
        return False
    splitters = _parts(backend.pre_tokenizer, "pretokenizers")
    if not splitters or any(part["type"] not in _WORD_SPLITTERS or part.get("add_prefix_space") for part in splitters):
        return False
    # An added token may reach over what is beside it.
    added = tokenizer.added_tokens_decoder.values()
    if any(token.lstrip or token.single_word or "\n" in token.content for token in added):
        return False

    def words(text: str) -> list[str]:
        return [word for word, _ in backend.pre_tokenizer.pre_tokenize_str(text)]

    # Merges stay within words. An added token is none: behind one, a newline is the first character.
    lines = {f"{one}\n": words(f"{one}\n") for one in ("", *_PROBES)}
    others = {other: words(other) for other in _PROBES}
    return all(words(line + other) == lines[line] + others[other] for line, other in product(lines, others))


def _parts(component: Any, name: str) -> list[dict[str, Any]]:
    """The settings of a component of the `tokenizers` library; of each of its parts where it is a sequence of them."""
    if component is None:
        return []
    settings: dict[str, Any] = json.loads(component.__getstate__())
    parts: list[dict[str, Any]] = settings[name] if settings["type"] == "Sequence" else [settings]
    return parts
