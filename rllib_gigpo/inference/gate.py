"""The deterministic gate of the `hf` engine: one batch whenever every live client waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rllib_gigpo.inference.protocol import Generation, GenerationRequest


@dataclass(frozen=True)
class _Waiting:
    request: GenerationRequest
    future: asyncio.Future[Generation]


class BatchGate:
    """Holds the requests of live clients until each of them waits, then has all of them sampled in one batch.

    The batch runs inside the event loop: all coroutines wait for it anyway. Its rows are sorted by
    `GenerationRequest.order`, so neither the order of asking nor timing changes a batch.

    All clients open at one time must run in one event loop. Between uses the gate keeps nothing of a loop, so that each
    rollout may call `asyncio.run` anew.
    """

    def __init__(
        self,
        sample: Callable[[list[GenerationRequest]], list[Generation]],
        *,
        check: Callable[[GenerationRequest], None],
    ) -> None:
        """
        Args:
            sample: Answers a batch, in its order.
            check: Raises ValueError for a request that cannot be served; the other clients do not notice.
        """
        self._sample = sample
        self._check = check
        # Live clients in the order of their creation, with what each waits for.
        self._clients: dict[HFClient, _Waiting | None] = {}

    @property
    def num_clients(self) -> int:
        """How many clients are live."""
        return len(self._clients)

    def client(self) -> HFClient:
        """A new client, live from now on: no batch runs before it asks or leaves."""
        client = HFClient(self)
        self._clients[client] = None
        return client

    def abort(self) -> None:
        """Closes every client, also those a crashed run left behind. Calls still waiting raise RuntimeError."""
        left, self._clients = self._clients, {}
        for waiting in left.values():
            if waiting is None or waiting.future.done() or waiting.future.get_loop().is_closed():
                continue
            waiting.future.set_exception(RuntimeError("the engine was aborted while this client waited for a response"))

    def _ask(self, client: HFClient, request: GenerationRequest) -> asyncio.Future[Generation]:
        if client not in self._clients:
            raise RuntimeError("this client has left the engine: ask for a new one with engine.client()")
        if self._clients[client] is not None:
            raise RuntimeError(
                "this client already waits for a response: one request at a time, one client a coroutine"
            )
        self._check(request)
        future: asyncio.Future[Generation] = asyncio.get_running_loop().create_future()
        self._clients[client] = _Waiting(request, future)
        self._run_if_all_wait()
        return future

    def _withdraw(self, client: HFClient) -> None:
        if client in self._clients:
            self._clients[client] = None

    def _leave(self, client: HFClient) -> None:
        if client not in self._clients:
            return
        waiting = self._clients.pop(client)
        if waiting is not None:
            waiting.future.cancel()
        self._run_if_all_wait()

    def _run_if_all_wait(self) -> None:
        waiting = [one for one in self._clients.values() if one is not None and not one.future.done()]
        # A client whose call was cancelled is still live: it asks again, or leaves and so comes back here.
        if not waiting or len(waiting) < len(self._clients):
            return
        waiting.sort(key=lambda one: one.request.order)
        self._clients = dict.fromkeys(self._clients)
        try:
            generations = self._sample([one.request for one in waiting])
        except Exception as error:
            for one in waiting:
                one.future.set_exception(_failure(error, len(waiting)))
            return
        for one, generation in zip(waiting, generations, strict=True):
            one.future.set_result(generation)


class HFClient:
    """One coroutine's door to a `BatchGate`; see `InferenceClient`."""

    def __init__(self, gate: BatchGate) -> None:
        self._gate = gate

    async def __aenter__(self) -> HFClient:
        return self

    async def __aexit__(self, *exc_info: Any) -> None:
        self._gate._leave(self)

    async def generate(self, request: GenerationRequest) -> Generation:
        """Waits until every other live client has asked or left, then returns this client's response.

        Raises:
            ValueError: The model cannot serve this request (`check_request`); raised at once, the others do not notice.
            RuntimeError: The client has left or waits already; or the batch failed, with the failure as the cause.
        """
        future = self._gate._ask(self, request)
        try:
            return await future
        except asyncio.CancelledError:
            self._gate._withdraw(self)
            raise


def _failure(error: Exception, rows: int) -> RuntimeError:
    """An exception of its own for each waiting client: one object raised in many tasks would pile up tracebacks."""
    failure = RuntimeError(f"the hf engine failed to sample {rows} responses: {type(error).__name__}: {error}")
    failure.__cause__ = error
    return failure
