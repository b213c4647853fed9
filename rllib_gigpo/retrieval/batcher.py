"""Puts queries that wait at the same time into one search: for an encoder a batch takes little more than a query."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from rllib_gigpo.retrieval.passages import Passage

SearchAll = Callable[[Sequence[str], int], list[list[Passage]]]


class TooBusyError(Exception):
    """More queries wait than are allowed to."""


class _Request(NamedTuple):
    queries: list[str]
    topk: int
    found: asyncio.Future[list[list[Passage]]]


class Batcher:
    """Runs one search at a time in a thread; what comes meanwhile is the next batch. Belongs to one event loop.

    Args:
        search_all: Finds up to so many passages for each query.
        max_batch: Queries of a search, unless one request has more.
        max_waiting: Queries that may wait.
    """

    def __init__(self, search_all: SearchAll, *, max_batch: int = 64, max_waiting: int = 4096):
        self._search_all = search_all
        self._max_batch = max_batch
        self._max_waiting = max_waiting
        self._waiting: list[_Request] = []
        self._worker: asyncio.Task[None] | None = None

    async def search(self, queries: list[str], topk: int) -> list[list[Passage]]:
        """Up to `topk` passages for each query.

        Raises:
            TooBusyError: Too many queries wait already.
            Exception: What the search raised; other requests of the same batch get it too.
        """
        if sum(len(request.queries) for request in self._waiting) + len(queries) > self._max_waiting:
            raise TooBusyError(f"{self._max_waiting} queries wait already")
        request = _Request(queries, topk, asyncio.get_running_loop().create_future())
        self._waiting.append(request)
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work())
        return await request.found

    async def _work(self) -> None:
        while batch := self._next_batch():
            queries = [query for request in batch for query in request.queries]
            try:
                results = await asyncio.to_thread(self._search_all, queries, max(request.topk for request in batch))
            except Exception as error:
                _give(batch, error)
            else:
                _give(batch, results)

    def _next_batch(self) -> list[_Request]:
        size = taken = 0
        for request in self._waiting:
            size += len(request.queries)
            if taken and size > self._max_batch:
                break
            taken += 1
        batch, self._waiting = self._waiting[:taken], self._waiting[taken:]
        return batch


def _give(batch: list[_Request], results: list[list[Passage]] | Exception) -> None:
    """To each request its part of the results, or the error; a client may have hung up meanwhile."""
    position = 0
    for request in batch:
        if request.found.done():
            pass
        elif isinstance(results, Exception):
            request.found.set_exception(results)
        else:
            own = results[position : position + len(request.queries)]
            request.found.set_result([found[: request.topk] for found in own])
        position += len(request.queries)
