"""Our client and our server over HTTP, each also against the other side as others have written it."""

from __future__ import annotations

import json
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from rllib_gigpo.retrieval import client
from rllib_gigpo.retrieval.client import (
    BAD_ANSWER,
    CONNECTION_ERROR,
    HTTP_ERROR,
    TIMEOUT,
    HTTPRetriever,
    ServerAddress,
)
from rllib_gigpo.retrieval.dialects import DIALECTS
from rllib_gigpo.retrieval.passages import RetrievalFailure
from rllib_gigpo.retrieval.serve import bound_socket, url_of
from tests.retrieval_cases import (
    PASSAGES,
    as_search_r1_answers,
    as_verl_agent_answers,
    breaks_off,
    drips,
    foreign_server,
    hangs_up,
    never_ends,
    our_server,
    raw_server,
    says_nothing,
    small_retriever,
    speaks_no_http,
)

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with our_server() as url:
        yield url


@pytest.fixture(autouse=True)
def no_delays(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The delays between attempts, which no test waits for."""
    delays: list[float] = []
    monkeypatch.setattr(client.time, "sleep", delays.append)
    return delays


def post(url: str, question: Any) -> tuple[int, Any]:
    """As the clients of Search-R1 and verl-agent ask: JSON posted, JSON back."""
    body = question if isinstance(question, bytes) else json.dumps(question).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def failure_of(url: str, **options: Any) -> tuple[RetrievalFailure, HTTPRetriever, float]:
    """How a search fails, and in how many seconds."""
    retriever = HTTPRetriever(ServerAddress(url, **{"timeout_s": 0.5, "retries": 1, **options}))
    start = time.monotonic()
    with pytest.raises(RetrievalFailure) as failure:
        retriever.search("Velford", 3)
    return failure.value, retriever, time.monotonic() - start


@pytest.mark.parametrize("dialect", DIALECTS)
def test_our_client_and_our_server_understand_each_other(url: str, dialect: str) -> None:
    retriever = HTTPRetriever(ServerAddress(url, dialect))
    here = small_retriever()
    for query, topk in (
        ("Velford", 3),
        ("Velford", 1),
        ("capital of Norvia", 2),
        ("漢字 \U0001f0a1 \ud83c", 3),
        ("the", 3),
    ):
        assert retriever.search(query, topk) == here.search(query.replace("\ud83c", "?"), topk)
    assert retriever.search("漢字", 1) == [PASSAGES[2]._replace(score=retriever.search("漢字", 1)[0].score)]


@pytest.mark.parametrize(
    ("dialect", "answers"), [("search-r1", as_search_r1_answers), ("verl-agent", as_verl_agent_answers)]
)
def test_our_client_asks_the_servers_of_others(dialect: str, answers: Callable[[Any], tuple[int, bytes]]) -> None:
    with foreign_server(answers) as url:
        found = HTTPRetriever(ServerAddress(url, dialect)).search("Velford", 2)
    assert found == [passage._replace(score=0.5) for passage in PASSAGES[:2]]


def test_clients_of_others_ask_our_server(url: str) -> None:
    # Search-R1, search_r1/llm_agent/generation.py: a batch of queries, scores wanted.
    status, content = post(url, {"queries": ["Velford", "Norvia land", "the"], "topk": 2, "return_scores": True})
    assert status == 200 and [len(found) for found in content["result"]] == [2, 2, 0]
    for found, first in zip(content["result"], (PASSAGES[0], PASSAGES[1]), strict=False):
        assert found[0]["document"]["contents"] == first.contents and found[0]["score"] > found[1]["score"]
    # verl-agent: one query a request.
    status, one = post(url, {"query": "Velford", "topk": 2, "return_scores": True})
    assert status == 200 and one["result"] == content["result"][:1]
    # Both without scores: the documents alone. Without `topk`: the server's own.
    bare = [found["document"] for found in content["result"][0]]
    assert post(url, {"queries": ["Velford"], "return_scores": False})[1] == {"result": [bare]}
    assert post(url, {"query": "Velford"})[1] == {"result": [bare]}
    assert post(url, {"queries": []}) == (200, {"result": []})


@pytest.mark.parametrize(
    "question",
    [
        b"{",
        b"",
        {},
        {"queries": "Velford"},
        {"queries": [3]},
        {"query": ["Velford"]},
        {"query": "a", "queries": ["a"]},
        {"query": "a", "topk": 0},
        {"query": "a", "topk": 10**9},
        {"queries": ["a"] * 1025},
        {"query": "a" * 20_001},
    ],
)
def test_the_server_refuses_what_it_does_not_understand(url: str, question: Any) -> None:
    status, content = post(url, question)
    assert status == 422 and content["detail"]
    assert post(url, {"query": "Velford"})[0] == 200, "and goes on"


def test_many_clients_at_once_get_their_own_answers(url: str) -> None:
    retriever = HTTPRetriever(ServerAddress(url))
    expected = {query: small_retriever().search(query, 1) for query in ("Velford river", "Norvia land", "漢字")}
    queries = [*expected] * 8
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(lambda query: retriever.search(query, 1), queries)) == [*expected.values()] * 8


def test_a_search_that_fails_in_the_server_is_a_500_that_says_why() -> None:
    retriever = small_retriever()

    def fail(*args: Any) -> Any:
        raise OSError("no disk")

    retriever.search_all = fail  # type: ignore[method-assign]
    with our_server(retriever) as url:
        assert post(url, {"query": "x"}) == (500, {"detail": "the search failed: OSError: no disk"})


@pytest.mark.parametrize(
    ("behave", "cause"),
    [
        (says_nothing, TIMEOUT),
        (drips, TIMEOUT),
        (hangs_up, CONNECTION_ERROR),
        (speaks_no_http, CONNECTION_ERROR),
        (breaks_off, CONNECTION_ERROR),
        (never_ends, BAD_ANSWER),
    ],
)
def test_a_server_that_misbehaves_is_a_failure_in_time(behave: Callable[[socket.socket], None], cause: str) -> None:
    with raw_server(behave) as url:
        failure, _, seconds = failure_of(url, timeout_s=20.0 if cause == BAD_ANSWER else 0.5)
    assert failure.cause == cause, failure
    assert url in str(failure) and "attempt 2" in str(failure)
    assert seconds < 60, "never a hang"


@pytest.mark.parametrize(
    ("status", "body", "cause", "attempts"),
    [
        (500, b"oh no", HTTP_ERROR, 3),
        (503, b"", HTTP_ERROR, 3),
        (429, b"", HTTP_ERROR, 3),
        (404, b"no such page", HTTP_ERROR, 1),
        (302, b"", HTTP_ERROR, 1),
        (200, b"<html>hello</html>", BAD_ANSWER, 3),
        (200, b'{"result": "x"}', BAD_ANSWER, 3),
    ],
)
def test_what_may_pass_is_tried_again(
    status: int, body: bytes, cause: str, attempts: int, no_delays: list[float]
) -> None:
    asked: list[Any] = []

    def answer(question: Any) -> tuple[int, bytes]:
        asked.append(question)
        return status, body

    with foreign_server(answer) as url:
        failure, _, _ = failure_of(url, retries=2, timeout_s=20.0)
    assert failure.cause == cause and len(asked) == attempts
    assert body.decode() in str(failure)
    assert len(no_delays) == attempts - 1


def test_nobody_there_is_a_failure_and_delays_grow_with_jitter(no_delays: list[float]) -> None:
    with bound_socket("127.0.0.1", 0) as bound:  # nobody listens
        failure, retriever, _ = failure_of(url_of(bound), retries=6, timeout_s=20.0)
        assert failure.cause == CONNECTION_ERROR
        for delay, middle in zip(no_delays, (0.5, 1, 2, 4, 8, 8), strict=True):
            assert 0.5 * middle <= delay <= 1.5 * middle
        assert len({delay / middle for delay, middle in zip(no_delays, (0.5, 1, 2, 4, 8, 8), strict=True)}) == 6
        first, *no_delays[:] = [tuple(no_delays)]
        failure_of(url_of(bound), retries=6, timeout_s=20.0)
        assert tuple(no_delays) == first, "the jitter is derived from seeds"
        no_delays.clear()
        with pytest.raises(RetrievalFailure, match="attempt 1"):
            retriever.search("Velford", 3)
        assert no_delays == [], "while a server is away, others do not wait for it"


def test_a_server_that_comes_back_is_used_again() -> None:
    away = threading.Event()
    away.set()

    def answer(question: Any) -> tuple[int, bytes]:
        return (503, b"") if away.is_set() else as_search_r1_answers(question)

    with foreign_server(answer) as url:
        _, retriever, _ = failure_of(url, timeout_s=20.0)
        assert retriever._away_since is not None
        away.clear()
        assert len(retriever.search("Velford", 3)) == 3
        assert retriever._away_since is None, "the next failure is retried again"


def test_a_port_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ValueError, match=rf"port {port} of 127\.0\.0\.1 is in use; name another one with --port"):
            bound_socket("127.0.0.1", port)
    with pytest.raises(ValueError, match=r"cannot listen on port 1 of 203\.0\.113\.1"):
        bound_socket("203.0.113.1", 1)
