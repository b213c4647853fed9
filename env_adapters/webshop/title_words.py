"""The words by which the score compares titles: nouns, where a model of spaCy is installed that finds them."""

from __future__ import annotations

import logging
import re
from functools import cache, lru_cache, partial
from importlib.util import find_spec
from typing import Any

from rllib_gigpo.env_adapters.webshop.score import TitleWords

logger = logging.getLogger(__name__)

TITLE_WORDS = ("auto", "nouns", "words")
# The first that is installed; verl-agent takes the small one, the original the large one.
SPACY_MODELS = ("en_core_web_sm", "en_core_web_lg")
_NOUNS = ("NOUN", "PROPN")
_STOP_WORD_TEXT = """
a about above after all an and any are as at be because before below between both but by can each for from had has
have how if in into is it its just may more most no nor not of off on only or other our out over own pack per same
set so some such than that the their then there these they this those through to too under up us very was we were
what when where which who will with without you your
"""
_STOP_WORDS = frozenset(_STOP_WORD_TEXT.split())


def title_words(choice: str) -> TitleWords:
    """The function from a title to its words.

    Args:
        choice: "nouns", found by spaCy as published; "words", all but stop words; "auto", nouns where a model of spaCy
            is installed, else words, which is said once.

    Raises:
        ImportError: "nouns", and neither model is installed.
    """
    model = next((name for name in SPACY_MODELS if find_spec(name)), None) if choice != "words" else None
    if model is not None:
        _tagger(model)  # raises here rather than at the first purchase
        return partial(_nouns, model=model)
    if choice == "nouns":
        raise ImportError(
            f"title_words='nouns' needs spaCy and one of its models {' or '.join(SPACY_MODELS)}: pip install spacy, "
            f"python -m spacy download {SPACY_MODELS[0]}; or set title_words='words'"
        )
    if choice == "auto":
        _say_once()
    return _words


@cache
def _tagger(model: str) -> Any:
    import spacy

    return spacy.load(model)


@lru_cache(maxsize=4096)
def _nouns(title: str, *, model: str) -> frozenset[str]:
    return frozenset(token.text.lower() for token in _tagger(model)(title) if token.pos_ in _NOUNS)


def _words(title: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", title.lower())) - _STOP_WORDS


@cache
def _say_once() -> None:
    logger.info(
        "WebShop's score compares titles by all their words but stop words, since no model of spaCy is installed "
        "(%s); the published score compares their nouns",
        " or ".join(SPACY_MODELS),
    )
