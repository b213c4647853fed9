"""The two public ways to ask a retrieval server; what it answers is the same for both.

| dialect    | asks                                        | in                                            |
|------------|---------------------------------------------|-----------------------------------------------|
| search-r1  | {"queries": [q, …], "topk", "return_scores"} | Search-R1 (Jin et al. 2025, arXiv 2503.09516) |
| verl-agent | {"query": q, "topk", "return_scores"}        | verl-agent (Feng et al. 2025, GiGPO)          |

The answer is {"result": [[{"document": {"id", "contents"}, "score"}, …], …]}, a list a query; without scores, the bare
documents.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rllib_gigpo.retrieval.json_lines import readable
from rllib_gigpo.retrieval.passages import Passage

DIALECTS = ("search-r1", "verl-agent")


def question(dialect: str, query: str, topk: int) -> dict[str, Any]:
    """What a client sends for one query."""
    query = readable(query)
    asked: dict[str, Any] = {"queries": [query]} if dialect == "search-r1" else {"query": query}
    return {**asked, "topk": topk, "return_scores": True}


def answer(results: Sequence[Sequence[Passage]], *, with_scores: bool) -> dict[str, Any]:
    """What a server sends for some queries."""
    return {"result": [[_shown(passage, with_scores) for passage in found] for found in results]}


def passages_in(body: bytes) -> list[Passage]:
    """The passages that an answer to one query holds.

    Raises:
        ValueError: It is no such answer.
    """
    try:
        content = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is no JSON: {_start_of(body)}") from error
    results = content.get("result") if isinstance(content, dict) else None
    if not isinstance(results, list) or len(results) != 1 or not isinstance(results[0], list):
        raise ValueError(f'it must be {{"result": [[…]]}} with one list of documents, but is {_start_of(body)}')
    return [_passage(found, number) for number, found in enumerate(results[0])]


def _shown(passage: Passage, with_score: bool) -> dict[str, Any]:
    document = {"id": passage.id, "contents": passage.contents}
    return {"document": document, "score": passage.score} if with_score else document


def _passage(found: Any, number: int) -> Passage:
    document = found.get("document", found) if isinstance(found, dict) else None
    if not isinstance(document, dict) or not isinstance(document.get("contents"), str):
        raise ValueError(f'document {number} has no text under "contents": {_start_of(json.dumps(found).encode())}')
    score = found.get("score")
    is_number = isinstance(score, int | float) and not isinstance(score, bool)
    contents = readable(document["contents"])
    return Passage(readable(str(document.get("id", number))), contents, float(score) if is_number else None)


def _start_of(body: bytes) -> str:
    text = repr(body[:120])[1:]
    return text if len(body) <= 120 else f"{text}…"
