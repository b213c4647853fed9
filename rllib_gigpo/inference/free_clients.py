"""Clients of an engine that takes each request as it comes: no client waits for another."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from rllib_gigpo.inference.protocol import Generation, GenerationRequest


class FreeClients:
    """The open clients of an engine.

    Args:
        sample: Answers a request.
    """

    def __init__(self, sample: Callable[[GenerationRequest], Awaitable[Generation]]):
        self._sample = sample
        self._open: set[FreeClient] = set()

    def __len__(self) -> int:
        return len(self._open)

    def client(self) -> FreeClient:
        """A new client, open from now on."""
        client = FreeClient(self)
        self._open.add(client)
        return client

    def close_all(self) -> None:
        """Closes every client, also those that a rollout which failed left behind."""
        self._open.clear()


class FreeClient:
    """One coroutine's door to an engine; see `InferenceClient`."""

    def __init__(self, clients: FreeClients):
        self._clients = clients

    async def __aenter__(self) -> FreeClient:
        return self

    async def __aexit__(self, *exc_info: Any) -> None:
        self._clients._open.discard(self)

    async def generate(self, request: GenerationRequest) -> Generation:
        """Samples one response.

        Raises:
            ValueError: The engine cannot serve this request.
            RuntimeError: The client has left, or the engine failed.
        """
        if self not in self._clients._open:
            raise RuntimeError("this client has left the engine: ask for a new one with engine.client()")
        return await self._clients._sample(request)
