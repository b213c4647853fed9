"""A corpus of passages in a file, read from there when they are asked for."""

from __future__ import annotations

import json
import mmap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from rllib_gigpo.retrieval.json_lines import Line, read_json_lines, readable
from rllib_gigpo.retrieval.passages import Passage, PassageIndex


class Corpus(Protocol):
    """Passages by number."""

    def __len__(self) -> int: ...

    def passage(self, number: int) -> Passage:
        """The passage of a number, from 0."""

    def texts(self) -> Iterator[str]:
        """The contents of all passages, in order."""


class ListedCorpus:
    """A corpus in memory."""

    def __init__(self, passages: Sequence[Passage]):
        self._passages = passages

    def __len__(self) -> int:
        return len(self._passages)

    def passage(self, number: int) -> Passage:
        return self._passages[number]

    def texts(self) -> Iterator[str]:
        return (passage.contents for passage in self._passages)


class CorpusFile:
    """A file with one passage a line, `{"id": …, "contents": …}` in JSON, as Search-R1's wiki-18.jsonl.

    What is kept in memory is where each line begins, 8 bytes a passage. The file must not change meanwhile.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: A line is no JSON object or has no text under "contents", or there is no line at all; the message
            has the line's number.
    """

    def __init__(self, path: Path):
        self.path = path
        starts = [line.start for line in read_json_lines(path) if _contents(path, line)]
        if not starts:
            raise ValueError(f'{path} holds no passage; it must have one {{"id": …, "contents": …}} a line')
        self._starts = np.asarray(starts, np.int64)
        with path.open("rb") as file:
            self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def __len__(self) -> int:
        return len(self._starts)

    @property
    def num_bytes(self) -> int:
        """Size of the file."""
        return len(self._bytes)

    def passage(self, number: int) -> Passage:
        content = self._line(number)
        return Passage(readable(str(content.get("id", number))), readable(content["contents"]))

    def texts(self) -> Iterator[str]:
        return (self._line(number)["contents"] for number in range(len(self)))

    def _line(self, number: int) -> dict[str, str]:
        start = int(self._starts[number])
        end = self._bytes.find(b"\n", start)
        content: dict[str, str] = json.loads(self._bytes[start : end if end >= 0 else len(self._bytes)])
        return content


class LocalRetriever:
    """Searches in this process.

    Args:
        corpus: The passages.
        index: Over the same passages.
    """

    def __init__(self, corpus: Corpus, index: PassageIndex):
        self.corpus = corpus
        self.index = index

    def search(self, query: str, topk: int) -> list[Passage]:
        return self.search_all([query], topk)[0]

    def search_all(self, queries: Sequence[str], topk: int) -> list[list[Passage]]:
        """Up to `topk` passages for each query, the best first."""
        return [
            [self.corpus.passage(number)._replace(score=score) for number, score in found]
            for found in self.index.search(queries, topk)
        ]


def _contents(path: Path, line: Line) -> bool:
    """True. Raises ValueError where a line has no contents."""
    contents = line.content.get("contents")
    if not isinstance(contents, str) or not contents.strip():
        raise ValueError(f'{path}, line {line.number} has "contents": {contents!r}; it must be the text of the passage')
    return True
