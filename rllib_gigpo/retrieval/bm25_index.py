"""Search by words: BM25, by the package bm25s."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rllib_gigpo.retrieval.corpus import Corpus, CorpusFile

# bm25s's own pattern leaves out words of one character: digits, initials, many words of Chinese.
_WORDS = {"stopwords": "en", "token_pattern": r"(?u)\b\w+\b", "show_progress": False}
_CORPUS_FILE = "corpus_of_index.json"


class BM25Index:
    """An index over the words of the passages, without English stop words. `of` makes one."""

    name = "BM25"

    def __init__(self, scorer: Any, bm25s: Any):
        self._scorer = scorer
        self._bm25s = bm25s

    @classmethod
    def of(cls, corpus: Corpus, folder: Path | None = None) -> BM25Index:
        """An index of `corpus`; with `folder`, the one that is saved there, or one that is saved there now.

        Raises:
            ImportError: The package bm25s is missing.
            ValueError: The folder holds something else than an index of this corpus.
        """
        bm25s = _bm25s()
        if folder is not None and folder.exists():
            _check_saved(folder, corpus)
            return cls(bm25s.BM25.load(str(folder), mmap=True, show_progress=False), bm25s)
        scorer = bm25s.BM25()
        tokens = bm25s.tokenize(list(corpus.texts()), **_WORDS)
        scorer.index(tokens, show_progress=False)
        if folder is not None:
            scorer.save(str(folder), show_progress=False)
            (folder / _CORPUS_FILE).write_text(json.dumps(_identity(corpus)))
        return cls(scorer, bm25s)

    def search(self, queries: Sequence[str], topk: int) -> list[list[tuple[int, float]]]:
        """See `PassageIndex`. A passage without any word of the query is never found."""
        tokens = self._bm25s.tokenize(list(queries), return_ids=False, **_WORDS)
        return [self._best(self._scorer.get_tokens_ids(words), topk) for words in tokens]

    def _best(self, token_ids: list[int], topk: int) -> list[tuple[int, float]]:
        if not token_ids:
            return []
        scores: np.ndarray = self._scorer.get_scores_from_ids(token_ids)
        # Not bm25s's own top k: which of equally good passages that keeps depends on the partition.
        lowest = np.partition(scores, -topk)[-topk] if topk < len(scores) else 0.0
        found = np.flatnonzero((scores >= lowest) & (scores > 0))
        best = found[np.argsort(-scores[found], kind="stable")][:topk]
        return [(int(number), float(scores[number])) for number in best]


def _bm25s() -> Any:
    try:
        import bm25s
    except ImportError as error:
        raise ImportError(
            f"search by words needs the package bm25s, and {error.name or error} is missing: "
            'pip install "rllib-gigpo[search]"'
        ) from error
    return bm25s


def _identity(corpus: Corpus) -> dict[str, int]:
    """What an index is compared by with a corpus."""
    return {"passages": len(corpus), "bytes": corpus.num_bytes if isinstance(corpus, CorpusFile) else 0}


def _check_saved(folder: Path, corpus: Corpus) -> None:
    try:
        saved = json.loads((folder / _CORPUS_FILE).read_text())
    except (OSError, ValueError) as error:
        raise ValueError(f"{folder} is there but holds no whole index: {error}; name another, or remove it") from error
    if saved != _identity(corpus):
        raise ValueError(f"the index in {folder} is of another corpus: of {saved}, and this is {_identity(corpus)}")
