"""The openai engine against a server over HTTP: what it sends, and what it makes of servers that do not answer well."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from rllib_gigpo.inference.chat import ChatAnswer, ChatRequest, EndpointDown, EndpointRefused, RequestFailed
from rllib_gigpo.inference.openai_engine import OpenAIEngine
from rllib_gigpo.inference.openai_options import OpenAIOptions, check_base_url
from rllib_gigpo.inference.protocol import SamplingParams
from rllib_gigpo.inference.request_pace import back_off_s
from tests.openai_server import TRICKLE, Reply, chat_server, completion, error

pytestmark = pytest.mark.integration

SAMPLING = SamplingParams(9, temperature=0.5, top_p=0.9)
# Retries without waiting long.
QUICK: dict[str, Any] = {"max_retries": 2, "first_wait_s": 0.01, "timeout_s": 5.0}


def engine_for(base_url: str, **options: Any) -> OpenAIEngine:
    return OpenAIEngine(base_url, "tiny", OpenAIOptions(**{**QUICK, **options}))


def ask(engine: OpenAIEngine, count: int = 1, sampling: SamplingParams = SAMPLING) -> list[ChatAnswer]:
    """Answers to so many requests, one after the other."""

    async def run() -> list[ChatAnswer]:
        async with engine, engine.client() as client:
            return [await client.ask(ChatRequest(f"hello {i}", seed=5 + i, sampling=sampling)) for i in range(count)]

    return asyncio.run(run())


def answers(*replies: Reply | None) -> Callable[[dict[str, Any], int], Reply | None]:
    """Those in turn, the last one for ever."""
    return lambda body, number: replies[min(number, len(replies) - 1)]


GOOD = Reply(200, completion("hi"))


def test_it_sends_a_chat_request_and_counts_the_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    with chat_server(answers(GOOD)) as server:
        engine = engine_for(server.base_url + "/", extra_body={"reasoning_effort": "low", "top_p": None})
        assert ask(engine, 2) == [ChatAnswer("hi", "stop")] * 2
    assert server.requests[1] == {
        "model": "tiny",
        "messages": [{"role": "user", "content": "hello 1"}],
        "max_tokens": 9,
        "temperature": 0.5,
        "seed": 6,
        "reasoning_effort": "low",
    }
    assert server.headers[0]["Authorization"] == "Bearer sk-secret"
    usage = engine.usage
    assert (usage.requests, usage.retries, usage.failed) == (2, 0, 0)
    assert (usage.prompt_tokens, usage.response_tokens, usage.answers_without_token_counts) == (14, 6, 0)


def test_without_a_key_it_sends_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with chat_server(answers(GOOD)) as server:
        ask(engine_for(server.base_url))
    assert "Authorization" not in server.headers[0]


@pytest.mark.parametrize(
    ("message", "answer"),
    [
        ({"content": None}, ""),
        ({"content": "b", "reasoning_content": "a"}, "<think>a</think>b"),
        ({"content": "<action>x</action> and on"}, "<action>x</action>"),
    ],
)
def test_what_servers_split_or_go_on_with_is_put_right(message: dict[str, Any], answer: str) -> None:
    reply = completion("", choices=[{"message": message, "finish_reason": "length"}], usage=None)
    with chat_server(answers(Reply(200, reply))) as server:
        engine = engine_for(server.base_url)
        (got,) = ask(engine, sampling=SamplingParams(9, stop=("</action>",)))
    assert got.text == answer
    assert got.finish_reason == ("stop" if "x" in answer else "length")
    assert engine.usage.answers_without_token_counts == 1


@pytest.mark.parametrize(
    ("bad", "cause"),
    [
        (Reply(500, "Internal Server Error"), "http_500"),
        (Reply(503, error("warming up")), "http_503"),
        (Reply(429, error("slow down"), {"Retry-After": "0.01"}), "http_429"),
        (Reply(200, "<html>a proxy</html>"), "garbage"),
        (Reply(200, b"\xff\xfe\x00"), "garbage"),
        (Reply(200, ""), "garbage"),
        (Reply(200, []), "garbage"),
        (Reply(200, {"choices": []}), "garbage"),
        (Reply(200, completion(7)), "garbage"),
        (Reply(200, completion("cut"), {"Content-Length": "9000"}), "connection"),
        (Reply(200, "not gzip", {"Content-Encoding": "gzip"}), "connection"),
    ],
)
def test_what_may_pass_is_tried_again_and_then_a_failure_of_that_request(bad: Reply, cause: str) -> None:
    with chat_server(answers(bad, bad, GOOD)) as server:
        engine = engine_for(server.base_url)
        assert ask(engine) == [ChatAnswer("hi", "stop")]
        assert engine.usage.retry_causes == {cause: 2}
    with chat_server(answers(bad)) as server:
        engine = engine_for(server.base_url)
        with pytest.raises(RequestFailed, match="3 attempts") as failed:
            ask(engine)
    assert failed.value.cause == cause
    assert len(server.requests) == 3
    assert (engine.usage.retries, engine.usage.failed) == (2, 1)


@pytest.mark.parametrize("reply", [None, Reply(200, TRICKLE)], ids=["silent", "trickling"])
def test_a_server_that_keeps_one_waiting_is_not_waited_for(reply: Reply | None) -> None:
    with chat_server(answers(reply)) as server:
        engine = engine_for(server.base_url, timeout_s=0.3, max_retries=1)
        started = time.monotonic()
        with pytest.raises(RequestFailed, match=r"no answer within 0.3 s \(2 attempts\)") as failed:
            ask(engine)
        assert time.monotonic() - started < 10
    assert failed.value.cause == "timeout"


def test_nobody_at_the_address() -> None:
    with chat_server(answers(GOOD)) as server:
        pass
    with pytest.raises(RequestFailed, match="ConnectError") as failed:
        ask(engine_for(server.base_url))
    assert failed.value.cause == "connection"


def test_a_request_that_is_wrong_is_not_tried_again() -> None:
    with chat_server(answers(Reply(400, error("the prompt is too long")), GOOD)) as server:
        engine = engine_for(server.base_url)
        with pytest.raises(RequestFailed, match="status 400: the prompt is too long"):
            ask(engine)
        assert ask(engine) == [ChatAnswer("hi", "stop")]
    assert engine.usage.retries == 0


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (Reply(401, error("Incorrect API key provided: sk-secret.")), r"\$OPENAI_API_KEY; status 401: Incorrect"),
        (Reply(403, error("no")), r"does not take the key in \$OPENAI_API_KEY"),
        (Reply(404, error("The model `tiny` does not exist.")), "knows no model 'tiny'.*does not exist"),
        (Reply(429, error("pay first", code="insufficient_quota")), "pay first"),
    ],
)
def test_what_will_not_pass_ends_the_run_at_once_and_never_shows_the_key(
    reply: Reply, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    with chat_server(answers(reply)) as server, pytest.raises(EndpointRefused, match=message) as refused:
        ask(engine_for(server.base_url))
    assert len(server.requests) == 1
    assert "sk-secret" not in str(refused.value)


def test_a_server_that_stays_down_is_given_up() -> None:
    with chat_server(answers(Reply(500, "down"))) as server:
        engine = engine_for(server.base_url, max_retries=0, give_up_after=3)

        async def run() -> None:
            async with engine:
                for _ in range(9):
                    try:
                        await engine.ask(ChatRequest("hello", 0, SAMPLING))
                    except RequestFailed:
                        continue

        with pytest.raises(
            EndpointDown, match="3 requests in a row without an answer, the last one: status 500: 'down'"
        ):
            asyncio.run(run())
    assert len(server.requests) == 3


def test_attempts_keep_to_the_rate_and_wait_as_long_as_a_server_asks() -> None:
    busy = Reply(429, error("slow down"), {"Retry-After": "0.3"})
    with chat_server(answers(GOOD, busy, GOOD)) as server:
        ask(engine_for(server.base_url, requests_per_minute=600), 3)
    gaps = [after - before for before, after in zip(server.times, server.times[1:], strict=False)]
    # A request is on its way for some time that differs, hence not the whole 0.1 s.
    assert all(gap > 0.05 for gap in gaps), gaps
    assert gaps[1] > 0.25, "the retry came before the server's Retry-After"


def test_waits_double_stay_below_the_longest_and_depend_on_the_seed_alone() -> None:
    waits = [back_off_s(attempt, 7, first_wait_s=1, longest_wait_s=10) for attempt in range(8)]
    assert waits == [back_off_s(attempt, 7, first_wait_s=1, longest_wait_s=10) for attempt in range(8)]
    for attempt, wait in enumerate(waits):
        assert 0.5 * min(2**attempt, 10) <= wait <= min(2**attempt, 10)
    assert waits != [back_off_s(attempt, 8, first_wait_s=1, longest_wait_s=10) for attempt in range(8)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"timeout": 3}, "no options .'timeout'.; there are timeout_s"),
        ({"timeout_s": 0}, "timeout_s is 0; it must be a number above 0"),
        ({"max_retries": 1.5}, "max_retries is 1.5; it must be an integer of at least 0"),
        ({"requests_per_minute": 0}, "requests_per_minute is 0"),
        ({"extra_body": {"messages": []}}, "extra_body sets .'messages'."),
        ({"extra_body": 3}, "extra_body is 3"),
        ({"api_key_env": "sk-abc/def"}, "name of an environment variable, not the key$"),
    ],
)
def test_wrong_options_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        OpenAIOptions.of(options)


@pytest.mark.parametrize("url", ["localhost:8000/v1", "ftp://a/v1", "http://", "http://me:word@a/v1", "http://a:x/v1"])
def test_wrong_addresses_are_refused_without_repeating_a_password(url: str) -> None:
    with pytest.raises(ValueError, match="base_url") as refused:
        check_base_url(url)
    assert "word" not in str(refused.value).replace("password", "")
