"""How the hf engine gathers the requests of its clients into batches, and what becomes of those that fail or leave."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from rllib_gigpo.inference.hf_engine import HFClient, HFEngine
from rllib_gigpo.inference.protocol import Generation, GenerationRequest
from rllib_gigpo.rl_modules.weights import get_weights
from tests.hf_engine_cases import (
    ask,
    generate_all,
    letters_tokenizer,
    make_requests,
    new_engine,
    new_own_engine,
    random_qwen2,
)

pytestmark = pytest.mark.integration


@pytest.fixture
def engine() -> HFEngine:
    return new_engine()


def test_the_gate_waits_for_every_live_client_and_opens_when_one_leaves(engine: HFEngine) -> None:
    async def run() -> None:
        requests = make_requests(3)
        first, second, third = (engine.client() for _ in range(3))
        tasks = [asyncio.create_task(ask(first, requests[0])), asyncio.create_task(ask(second, requests[1]))]
        for _ in range(5):
            await asyncio.sleep(0)
        assert engine.stats.batches == 0, "the third client is live from its creation on"
        await third.__aexit__(None, None, None)
        assert engine.stats.batches == 1 and engine.stats.rows == 2
        await asyncio.gather(*tasks)

    asyncio.run(asyncio.wait_for(run(), timeout=30))


def test_coroutines_of_different_lengths_share_batches_to_the_end(engine: HFEngine) -> None:
    async def turns(client: HFClient, request: GenerationRequest, count: int) -> int:
        async with client:
            for turn in range(count):
                await client.generate(replace(request, seed=turn))
                await asyncio.sleep(0)
        return count

    async def run() -> list[int]:
        clients = [engine.client() for _ in range(3)]
        return await asyncio.gather(
            *[turns(c, r, n) for c, r, n in zip(clients, make_requests(3), [1, 2, 4], strict=True)]
        )

    for _ in range(2):  # The second asyncio.run has another loop.
        assert asyncio.run(asyncio.wait_for(run(), timeout=30)) == [1, 2, 4]
        stats = engine.take_stats()
        assert (stats.batches, stats.rows) == (4, 7)


def test_stats_count_and_start_again_when_taken(engine: HFEngine) -> None:
    requests = make_requests(4)
    generations = generate_all(engine, requests)
    taken = engine.take_stats()
    assert (taken.batches, taken.rows, taken.seconds > 0) == (1, 4, True)
    assert taken.prompt_tokens == sum(len(r.prompt_ids) for r in requests)
    assert taken.response_tokens == sum(len(g.response_ids) for g in generations)
    assert engine.stats.rows == 0 and taken.rows == 4


def test_large_batches_run_in_pieces_with_the_same_responses(engine: HFEngine) -> None:
    pieces = HFEngine(random_qwen2(), letters_tokenizer(), max_batch_rows=3)
    requests = make_requests(7)
    for whole, piece in zip(generate_all(engine, requests), generate_all(pieces, requests), strict=True):
        assert whole.response_ids.tolist() == piece.response_ids.tolist()
    assert pieces.stats.batches == 3 and pieces.stats.rows == 7
    with pytest.raises(ValueError, match="max_batch_rows is 0"):
        HFEngine(random_qwen2(), letters_tokenizer(), max_batch_rows=0)


class RecordingEngine(HFEngine):
    """Notes the order of rows in each batch."""

    def _sample_batch(self, requests: list[GenerationRequest]) -> list[Generation]:
        self.batches = [*getattr(self, "batches", []), [request.order for request in requests]]
        return super()._sample_batch(requests)


def test_rows_are_sorted_by_their_order_whoever_asks_first() -> None:
    recording = RecordingEngine(random_qwen2(), letters_tokenizer(), max_batch_rows=3)
    orders = [(1, 0), (0, 11), (0, 2), (1, 10), (0, 3)]
    requests = [replace(r, order=order) for r, order in zip(make_requests(5), orders, strict=True)]
    generations = generate_all(recording, requests)
    assert recording.batches == [[(0, 2), (0, 3), (0, 11)], [(1, 0), (1, 10)]]
    for request, generation in zip(requests, generations, strict=True):
        assert generation.response_ids.tolist() == generate_all(recording, [request])[0].response_ids.tolist()


def test_a_failure_reaches_every_waiting_client_with_its_cause() -> None:
    own_engine = new_own_engine()
    good = get_weights(own_engine._model)
    own_engine.deliver({name: np.full_like(value, np.nan) for name, value in good.items()}, version=1)

    async def run() -> list[Generation | BaseException]:
        asked = [(own_engine.client(), request) for request in make_requests(3)]
        return await asyncio.gather(*[ask(*one) for one in asked], return_exceptions=True)

    failures = asyncio.run(run())
    assert len({id(failure) for failure in failures}) == 3
    for failure in failures:
        assert isinstance(failure, RuntimeError) and isinstance(failure.__cause__, FloatingPointError)
        assert "NaN" in str(failure)
    own_engine.deliver(good, version=2)
    assert [g.weights_version for g in generate_all(own_engine, make_requests(2))] == [2, 2]


def test_a_cancelled_client_does_not_hold_up_the_others(engine: HFEngine) -> None:
    async def run() -> None:
        requests = make_requests(3)
        clients = [engine.client() for _ in requests]
        first = asyncio.create_task(ask(clients[0], requests[0]))
        second = asyncio.create_task(ask(clients[1], requests[1]))
        await asyncio.sleep(0)
        first.cancel()
        # Asks before the cancelled coroutine has run again, when every call seems to wait.
        third = await ask(clients[2], requests[2])
        assert (await second).response_ids.size and third.response_ids.size
        assert first.cancelled() and engine.stats.rows == 2

    asyncio.run(asyncio.wait_for(run(), timeout=30))


def test_a_client_may_ask_again_after_a_cancelled_call(engine: HFEngine) -> None:
    async def run() -> None:
        request, other = make_requests(2)
        client, second = engine.client(), engine.client()
        async with client:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(client.generate(request), timeout=0.01)
            again = asyncio.create_task(client.generate(request))
            await asyncio.sleep(0)
            assert (await ask(second, other)).response_ids.size
            assert (await again).response_ids.size

    asyncio.run(asyncio.wait_for(run(), timeout=30))


def test_asking_twice_at_once_or_after_leaving_is_an_error(engine: HFEngine) -> None:
    async def run() -> None:
        request = make_requests(1)[0]
        client, second = engine.client(), engine.client()
        waiting = asyncio.create_task(client.generate(request))
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="already waits"):
            await client.generate(request)
        await ask(second, request)
        await waiting
        with pytest.raises(RuntimeError, match="has left"):
            await second.generate(request)
        await client.__aexit__(None, None, None)

    asyncio.run(asyncio.wait_for(run(), timeout=30))


def test_abort_clears_what_a_crashed_run_left(engine: HFEngine) -> None:
    request = make_requests(1)[0]
    stray = engine.client()
    with pytest.raises(asyncio.TimeoutError):
        asyncio.run(asyncio.wait_for(ask(engine.client(), request), timeout=0.01))
    engine.abort()
    assert generate_all(engine, [request])[0].response_ids.size
    with pytest.raises(RuntimeError, match="has left"):
        asyncio.run(ask(stray, request))

    async def abort_while_waiting() -> None:
        client, _never_asks = engine.client(), engine.client()
        waiting = asyncio.create_task(ask(client, request))
        await asyncio.sleep(0)
        engine.abort()
        with pytest.raises(RuntimeError, match="aborted"):
            await waiting

    asyncio.run(abort_while_waiting())
