"""Search by meaning: the nearest sentence vectors, by the package faiss."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rllib_gigpo.retrieval.corpus import Corpus

if TYPE_CHECKING:
    from rllib_gigpo.retrieval.encoder import SentenceEncoder

_BATCH = 64


class DenseIndex:
    """An index over the passages' vectors; scores are inner products. `of` makes one."""

    name = "dense"

    def __init__(self, vectors: Any, encoder: SentenceEncoder):
        self._vectors = vectors
        self._encoder = encoder

    @classmethod
    def of(cls, corpus: Corpus, encoder: SentenceEncoder, file: Path | None = None) -> DenseIndex:
        """An index of `corpus`; with `file`, the one of faiss that is saved there, such as Search-R1's e5_Flat.index,
        or one that is saved there now.

        Raises:
            ImportError: The package faiss is missing.
            ValueError: The file holds something else than an index of as many passages, of the encoder's dimensions.
        """
        faiss = _faiss()
        if file is not None and file.exists():
            return cls(_read(faiss, file, corpus, encoder), encoder)
        vectors = faiss.IndexFlatIP(encoder.num_dimensions)
        texts = iter(corpus.texts())
        while batch := list(islice(texts, _BATCH)):
            vectors.add(encoder.encode_passages(batch))
        if file is not None:
            faiss.write_index(vectors, str(file))
        return cls(vectors, encoder)

    def search(self, queries: Sequence[str], topk: int) -> list[list[tuple[int, float]]]:
        """See `PassageIndex`."""
        scores, numbers = self._vectors.search(self._encoder.encode_queries(queries), min(topk, self._vectors.ntotal))
        return [
            [(int(number), float(score)) for number, score in zip(*found, strict=True) if number >= 0]
            for found in zip(numbers, scores, strict=True)
        ]


def _faiss() -> Any:
    try:
        import faiss
    except ImportError as error:
        raise ImportError(
            "search by sentence vectors needs the package faiss, which is missing: "
            'pip install "rllib-gigpo[search-dense]"'
        ) from error
    return faiss


def _read(faiss: Any, file: Path, corpus: Corpus, encoder: SentenceEncoder) -> Any:
    try:
        vectors = faiss.read_index(str(file))
    except RuntimeError as error:
        raise ValueError(f"{file} is there but is no index of faiss: {error}") from error
    if (vectors.ntotal, vectors.d) != (len(corpus), encoder.num_dimensions):
        raise ValueError(
            f"the index in {file} has {vectors.ntotal} vectors of {vectors.d} numbers; the corpus has {len(corpus)} "
            f"passages and the encoder {encoder.num_dimensions} numbers a vector"
        )
    return vectors
