"""Passages, and what can find them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol


class Passage(NamedTuple):
    """A piece of text in a corpus.

    Attributes:
        id: Its name in the corpus.
        contents: Its text, by custom a title in quotation marks, a line break, and the text proper.
        score: How well it fits a query, larger is better; None where nobody said.
    """

    id: str
    contents: str
    score: float | None = None


class PassageIndex(Protocol):
    """Finds the numbers of passages; see `BM25Index`, `DenseIndex`."""

    @property
    def name(self) -> str:
        """What kind of index it is."""

    def search(self, queries: Sequence[str], topk: int) -> list[list[tuple[int, float]]]:
        """For each query, up to `topk` (passage number, score), the best first; of equals, the lower number first."""


class Retriever(Protocol):
    """Finds passages."""

    def search(self, query: str, topk: int) -> list[Passage]:
        """Up to `topk` passages, the best first.

        Raises:
            RetrievalFailure: It could not search.
        """


class RetrievalFailure(Exception):
    """A search that came to nothing for a reason that lies in the service and not in the query.

    Attributes:
        cause: A short name that metrics count.
    """

    def __init__(self, cause: str, message: str):
        super().__init__(message)
        self.cause = cause

    def __reduce__(self) -> tuple[Any, ...]:
        return RetrievalFailure, (self.cause, str(self))
