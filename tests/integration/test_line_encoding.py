"""Texts encoded line by line: the ids of the whole text, and no line encoded twice."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from rllib_gigpo.agent_formats import line_encoding
from rllib_gigpo.agent_formats.chat import encode_prompt
from rllib_gigpo.agent_formats.line_encoding import _splits_at_newlines, encode_text
from rllib_gigpo.env_adapters import embedded_model_path
from rllib_gigpo.rl_modules.model_directory import load_tokenizer

pytestmark = pytest.mark.integration

_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# Of GPT-4o, with its slash behind newlines.
_O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
# Merges of newlines with what is beside them, so that a text taken apart at a wrong place has other ids.
_TEXTS = ["\n\n\n \n  \n a\nb.\n\n.\n.a\r\n\r\n 1\n2\n- x\n- y\n\tz\n"] * 50


def _trained(pre_tokenizer: Any, *, normalizer: Any = None, added: tuple[AddedToken, ...] = ()) -> Any:
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizer
    if normalizer is not None:
        trained.normalizer = normalizer
    trainer = trainers.BpeTrainer(
        vocab_size=400, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False
    )
    trained.train_from_iterator(_TEXTS, trainer)
    trained.add_tokens([*added, AddedToken("<end>", special=True), AddedToken("<act>", normalized=True)])
    return PreTrainedTokenizerFast(tokenizer_object=trained)


_TOKENIZERS = {
    "gpt2": _trained(pre_tokenizers.ByteLevel(add_prefix_space=False)),
    "smollm": _trained(
        pre_tokenizers.Sequence([pre_tokenizers.Digits(True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    ),
    "llama3": _trained(pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(_LLAMA3), "isolated"), _BYTES])),
    "qwen": load_tokenizer(embedded_model_path("EZPoints")),
}
_ALPHABET = st.sampled_from([*"\n\n\n\r \tab1.-<>'é\u0301字", "\x1c", "\u2028", "\u00a0", "<end>", "<act>"])


@pytest.mark.parametrize("name", _TOKENIZERS)
@settings(deadline=None, max_examples=300)
@given(parts=st.lists(_ALPHABET, max_size=25))
def test_ids_are_those_of_the_whole_text(name: str, parts: list[str]) -> None:
    tokenizer, text = _TOKENIZERS[name], "".join(parts)
    assert encode_text(tokenizer, text) == tokenizer.encode(text, add_special_tokens=False)


@pytest.mark.parametrize("name", _TOKENIZERS)
def test_these_tokenizers_are_encoded_line_by_line(name: str) -> None:
    assert _splits_at_newlines(_TOKENIZERS[name])


@pytest.mark.parametrize(
    "tokenizer",
    [
        _trained(pre_tokenizers.ByteLevel(add_prefix_space=True)),
        _trained(pre_tokenizers.Sequence([_BYTES])),
        _trained(pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(_O200K), "isolated"), _BYTES])),
        _trained(pre_tokenizers.Metaspace()),
        _trained(pre_tokenizers.ByteLevel(add_prefix_space=False), normalizer=normalizers.Strip()),
        _trained(pre_tokenizers.ByteLevel(add_prefix_space=False), added=(AddedToken("<x>", lstrip=True),)),
        _trained(pre_tokenizers.ByteLevel(add_prefix_space=False), added=(AddedToken("<x>\n<y>"),)),
    ],
    ids=["prefix-space", "words-span-lines", "slash", "metaspace", "strips", "added-lstrip", "added-newline"],
)
def test_others_encode_the_whole_text(tokenizer: Any) -> None:
    assert not _splits_at_newlines(tokenizer)
    text = "a.\n<x>\n<y> b\nc"
    assert encode_text(tokenizer, text) == tokenizer.encode(text, add_special_tokens=False)


def test_a_line_that_is_shown_again_is_not_encoded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = load_tokenizer(embedded_model_path("EZPoints"))
    history = [f"You played card {card}.\nYour action was: {card}" for card in range(20)]
    encode_prompt(tokenizer, "\n".join(history[:19]))
    encoded: list[str] = []
    encode = type(tokenizer).encode

    def recorded(self: Any, text: str, *args: Any, **kwargs: Any) -> Any:
        encoded.append(text)
        return encode(self, text, *args, **kwargs)

    monkeypatch.setattr(type(tokenizer), "encode", recorded)
    ids = encode_prompt(tokenizer, "\n".join(history))
    assert sum(map(len, encoded)) < 200 < len("\n".join(history)) / 2
    monkeypatch.undo()
    rendered = tokenizer.apply_chat_template(
        [{"role": "user", "content": "\n".join(history)}], add_generation_prompt=True, return_dict=False
    )
    assert ids.tolist() == rendered


def test_a_token_that_is_added_later_is_heeded() -> None:
    tokenizer = _trained(pre_tokenizers.ByteLevel(add_prefix_space=False))
    text = "aa\nbb <new>\ncc"
    assert encode_text(tokenizer, text) == tokenizer.encode(text, add_special_tokens=False)
    tokenizer.add_tokens(["<new>"])
    assert encode_text(tokenizer, text) == tokenizer.encode(text, add_special_tokens=False)
    assert len(tokenizer) - 1 in encode_text(tokenizer, text)


def test_what_is_remembered_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_encoding, "_BYTES_KEPT", 4096)
    tokenizer = _trained(pre_tokenizers.ByteLevel(add_prefix_space=False))
    text = "\n".join(f"{number} " * 50 + "." for number in range(100))
    for _ in range(2):
        assert encode_text(tokenizer, text) == tokenizer.encode(text, add_special_tokens=False)
    memory = line_encoding._memories[tokenizer]
    assert 0 < len(memory.lines) < 20
    # As much as is kept, and a line.
    assert sum(sys.getsizeof(line) + sys.getsizeof(ids) for line, ids in memory.lines.items()) < 6000


def test_smollm2_is_encoded_line_by_line() -> None:
    path = Path("models/smollm2-135m-instruct")
    if not path.is_dir():
        pytest.skip("`make smollm2` writes models/smollm2-135m-instruct")
    tokenizer = load_tokenizer(path)
    assert _splits_at_newlines(tokenizer)
    text = "Your target number is 5.\n\nYou are at 1.\n  - up\n- down\nAct!"
    assert encode_text(tokenizer, text) == tokenizer.encode(text, add_special_tokens=False)
