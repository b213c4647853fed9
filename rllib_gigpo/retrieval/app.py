"""The retrieval server's web application: POST /retrieve in both public dialects, GET /health."""

from __future__ import annotations

import logging
from typing import Annotated, Any

from fastapi import FastAPI, HTTPException
from pydantic import BaseModel, Field, model_validator

from rllib_gigpo.retrieval.batcher import Batcher, TooBusyError
from rllib_gigpo.retrieval.corpus import LocalRetriever
from rllib_gigpo.retrieval.dialects import answer

logger = logging.getLogger(__name__)

MOST_QUERIES = 1024
MOST_PASSAGES = 1000
LONGEST_QUERY = 20_000

Query = Annotated[str, Field(max_length=LONGEST_QUERY)]


class Question(BaseModel):
    """What a client asks: "queries" as Search-R1 does, or "query" as verl-agent does."""

    queries: Annotated[list[Query], Field(max_length=MOST_QUERIES)] | None = None
    query: Query | None = None
    topk: Annotated[int, Field(ge=1, le=MOST_PASSAGES)] | None = None
    return_scores: bool = False

    @model_validator(mode="after")
    def _ask_in_one_dialect(self) -> Question:
        if (self.queries is None) == (self.query is None):
            raise ValueError('give "queries", a list, or "query", a text')
        return self


def retrieval_app(retriever: LocalRetriever, *, topk: int) -> FastAPI:
    """The application over a retriever; `topk` is for questions that name none."""
    app = FastAPI(title="rllib retriever", docs_url=None, redoc_url=None)
    batcher = Batcher(retriever.search_all)

    @app.post("/retrieve")
    async def retrieve(question: Question) -> dict[str, Any]:
        queries = [question.query] if question.query is not None else list(question.queries or ())
        try:
            results = await batcher.search(queries, question.topk or topk) if queries else []
        except TooBusyError as error:
            raise HTTPException(503, str(error)) from error
        except Exception as error:
            logger.exception("a search failed")
            raise HTTPException(500, f"the search failed: {type(error).__name__}: {error}") from error
        return answer(results, with_scores=question.return_scores)

    @app.get("/health")
    async def health() -> dict[str, Any]:
        return {"status": "ok", "index": retriever.index.name, "passages": len(retriever.corpus)}

    return app
