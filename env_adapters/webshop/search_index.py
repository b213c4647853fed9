"""Which products fit some words best: BM25 over the texts that WebShop searches, by the package `bm25s`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from rllib_gigpo.env_adapters.webshop.packages import packages
from rllib_gigpo.env_adapters.webshop.products import Product

# What the published engine, Lucene by way of Pyserini, computes with, and its English stop words.
_K1, _B = 0.9, 0.4
_STOP_WORD_TEXT = """
a an and are as at be but by for if in into is it no not of on or such that the their then there these they this to
was will with
"""
_STOP_WORDS = frozenset(_STOP_WORD_TEXT.split())


class SearchIndex:
    """Finds rows of texts by words. Made by `build` or `load`.

    Equal texts give equal hits in equal order: rows of one score come in the order of their numbers.
    """

    def __init__(self, bm25: Any | None):
        self._bm25 = bm25  # None where no text holds a word

    @classmethod
    def build(cls, texts: Iterable[str]) -> SearchIndex:
        """An index in memory; the n-th text is row n."""
        vocabulary: dict[str, int] = {}
        # One small list of integers for each text: a million texts would not fit into memory as words.
        rows = [[vocabulary.setdefault(stem, len(vocabulary)) for stem in stems_of(text)] for text in texts]
        bm25 = packages().bm25s.BM25(k1=_K1, b=_B, method="lucene")
        if vocabulary:
            bm25.index((rows, vocabulary), show_progress=False)
        return cls(bm25 if vocabulary else None)

    def save(self, folder: Path) -> None:
        """Writes it to a folder."""
        if self._bm25 is not None:
            self._bm25.save(folder, show_progress=False)

    @classmethod
    def load(cls, folder: Path) -> SearchIndex:
        """What `save` wrote; its arrays stay in the file, and processes share them."""
        return cls(packages().bm25s.BM25.load(folder, mmap=True, show_progress=False) if folder.is_dir() else None)

    def search(self, words: str, *, limit: int) -> list[int]:
        """Numbers of up to `limit` rows that hold at least one of the words, best first."""
        if self._bm25 is None:
            return []
        known = self._bm25.get_tokens_ids(stems_of(words))
        if not known:
            return []
        scores = self._bm25.get_scores_from_ids(known)  # float32[rows]
        # Not the package's own choice of the best: which of equal rows it takes depends on the processor.
        found = np.flatnonzero(scores > 0)
        if len(found) > limit:
            lowest = np.partition(scores[found], len(found) - limit)[len(found) - limit]
            better = found[scores[found] > lowest]
            equal = found[scores[found] == lowest][: limit - len(better)]
            found = np.concatenate([better, equal])
        best = found[np.argsort(-scores[found], kind="stable")]
        return [int(row) for row in best]


def searched_text(product: Product) -> str:
    """The text by which a product is found, as published: title, description, the first feature, and its options."""
    options = ", and ".join(f"{name}: {', '.join(values)}" for name, values in product.options.items())
    return " ".join([product.title, product.description, *product.features[:1], options])


def stems_of(text: str) -> list[str]:
    """Its words without stop words, in lower case and without their endings."""
    words = [word for word in re.findall(r"\w+", text.lower()) if word not in _STOP_WORDS]
    stems: list[str] = packages().stemmer.stemWords(words)
    return stems
