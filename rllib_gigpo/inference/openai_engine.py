"""The `openai` engine: chat completions of an OpenAI-compatible server, `vllm serve` among them. For evaluation."""

from __future__ import annotations

import asyncio
from typing import Any, NoReturn

import httpx

from rllib_gigpo.inference.chat import ChatAnswer, ChatRequest, ChatUsage, EndpointDown, EndpointRefused, RequestFailed
from rllib_gigpo.inference.openai_answers import (
    ChatCompletion,
    GarbageAnswer,
    error_code,
    error_message,
    read_completion,
)
from rllib_gigpo.inference.openai_options import OpenAIOptions, check_base_url
from rllib_gigpo.inference.protocol import FinishReason, SamplingParams
from rllib_gigpo.inference.request_pace import RequestPace, back_off_s, retry_after_s

# Beside all of 500 and above: what may be well a moment later.
_TRY_AGAIN = frozenset({408, 409, 425, 429})
# More than any answer; what goes on for longer is none.
_MOST_BYTES = 16 * 2**20


class _AttemptFailed(Exception):
    """An attempt that may go better the next time."""

    def __init__(self, cause: str, message: str, wait_s: float = 0.0):
        super().__init__(message)
        self.cause = cause
        self.wait_s = wait_s


class OpenAIEngine:
    """A `ChatEngine` over HTTP.

    Over HTTP, and not by the vendor's package: that one takes whatever a server answers for a completion, and does not
    tell how often it has tried.

    Args:
        base_url: Like "http://localhost:8000/v1".
        model: The server's name of it.
        options: Timeouts, retries, limits.

    Raises:
        ValueError: The address or the model's name cannot be one.
    """

    def __init__(self, base_url: str, model: str, options: OpenAIOptions):
        if not model:
            raise ValueError("the model has no name; give the one that the server lists at /models")
        self.usage = ChatUsage()
        self._url = f"{check_base_url(base_url)}/chat/completions"
        self._model = model
        self._options = options
        self._pace = RequestPace(options.requests_per_minute)
        self._failed_in_a_row = 0
        self._http: httpx.AsyncClient | None = None

    async def __aenter__(self) -> OpenAIEngine:
        key = self._options.api_key()
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        # Of one attempt, whatever it waits for, `asyncio.timeout` below has the time; a redirect would get the key.
        self._http = httpx.AsyncClient(
            headers=headers,
            timeout=None,
            follow_redirects=False,
            limits=httpx.Limits(max_connections=None),
            # Reading all certificates takes a noticeable time, which plain HTTP need not spend.
            verify=self._url.startswith("https:"),
        )
        return self

    async def __aexit__(self, *exc_info: Any) -> None:
        assert self._http is not None
        await self._http.aclose()

    def client(self) -> OpenAIClient:
        """A new client."""
        return OpenAIClient(self)

    def fits(self, message: str, sampling: SamplingParams) -> bool:
        """Whether a message is within `max_prompt_characters`; the server's own limit is not known."""
        limit = self._options.max_prompt_characters
        return limit is None or len(message) <= limit

    async def ask(self, request: ChatRequest) -> ChatAnswer:
        """The answer to a request; see `ChatClient`."""
        self.usage.asked(request)
        try:
            completion = await self._complete(request)
        except RequestFailed as failure:
            self.usage.failed += 1
            self._failed_in_a_row += 1
            if self._failed_in_a_row >= self._options.give_up_after:
                raise EndpointDown(
                    f"{self._url} has left {self._failed_in_a_row} requests in a row without an answer, the last one: "
                    f"{failure}"
                ) from failure
            raise
        self._failed_in_a_row = 0
        self._count(completion)
        return _answer(self._options.answer_prefix + completion.text, completion.finish_reason, request.sampling)

    async def _complete(self, request: ChatRequest) -> ChatCompletion:
        """The server's completion, after as many attempts as it takes or the options allow."""
        options, body = self._options, self._body(request)
        for attempt in range(options.max_retries + 1):
            await self._pace.wait()
            try:
                return await self._attempt(body)
            except _AttemptFailed as failure:
                if attempt == options.max_retries:
                    raise RequestFailed(failure.cause, f"{failure} ({attempt + 1} attempts)") from failure
                self.usage.retries += 1
                self.usage.retry_causes[failure.cause] += 1
                asked_for = min(failure.wait_s, options.longest_wait_s)
                self._pace.hold(asked_for)
                own = back_off_s(
                    attempt, request.seed, first_wait_s=options.first_wait_s, longest_wait_s=options.longest_wait_s
                )
            await asyncio.sleep(max(own, asked_for))
        raise AssertionError("the last attempt returns or raises")

    async def _attempt(self, body: dict[str, Any]) -> ChatCompletion:
        """One attempt.

        Raises:
            _AttemptFailed: It may go better the next time.
            RequestFailed: It will not.
            EndpointRefused: Nor will any other request.
        """
        assert self._http is not None, "use the engine as a context manager"
        try:
            async with asyncio.timeout(self._options.timeout_s):
                async with self._http.stream("POST", self._url, json=body) as response:
                    content = await _read(response)
        except TimeoutError as error:
            raise _AttemptFailed("timeout", f"no answer within {self._options.timeout_s:g} s") from error
        except httpx.HTTPError as error:
            raise _AttemptFailed("connection", self._without_key(f"{type(error).__name__}: {error}")) from error
        if response.status_code != 200:
            self._raise_status(response.status_code, response.headers.get("Retry-After"), content)
        try:
            return read_completion(content)
        except GarbageAnswer as error:
            raise _AttemptFailed(
                "garbage", f"the answer is no chat completion: {self._without_key(str(error))}"
            ) from error

    def _raise_status(self, status: int, retry_after: str | None, content: bytes) -> NoReturn:
        said = self._without_key(error_message(content))
        message = f"status {status}: {said}"
        if status in (401, 403):
            name = self._options.api_key_env
            held = "no key is set in" if self._options.api_key() is None else "it does not take the key in"
            raise EndpointRefused(f"{self._url} refuses to answer, {held} ${name}; {message}")
        if status == 404:
            raise EndpointRefused(
                f"{self._url} knows no model {self._model!r}, or is no address of chat completions; {message}"
            )
        if status == 429 and error_code(content) == "insufficient_quota":
            raise EndpointRefused(f"{self._url} refuses to answer; {message}")
        if status in _TRY_AGAIN or status >= 500:
            raise _AttemptFailed(f"http_{status}", message, retry_after_s(retry_after))
        raise RequestFailed(f"http_{status}", message)

    def _body(self, request: ChatRequest) -> dict[str, Any]:
        sampling = request.sampling
        body = {
            "model": self._model,
            "messages": [{"role": "user", "content": request.message}],
            "max_tokens": sampling.max_response_tokens,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "seed": request.seed,
            # Unknown to the API itself; vLLM has it.
            **({"top_k": sampling.top_k} if sampling.top_k else {}),
            **self._options.extra_body,
        }
        return {name: value for name, value in body.items() if value is not None}

    def _count(self, completion: ChatCompletion) -> None:
        if completion.prompt_tokens is None or completion.response_tokens is None:
            self.usage.answers_without_token_counts += 1
        self.usage.prompt_tokens += completion.prompt_tokens or 0
        self.usage.response_tokens += completion.response_tokens or 0

    def _without_key(self, text: str) -> str:
        """A server's text for messages: some repeat the key that they refuse."""
        key = self._options.api_key()
        return text if key is None else text.replace(key, "…")


class OpenAIClient:
    """One coroutine's door to an `OpenAIEngine`; see `ChatClient`."""

    def __init__(self, engine: OpenAIEngine):
        self._engine = engine

    async def __aenter__(self) -> OpenAIClient:
        return self

    async def __aexit__(self, *exc_info: Any) -> None:
        """Nothing is held for a client."""

    async def ask(self, request: ChatRequest) -> ChatAnswer:
        return await self._engine.ask(request)


def _answer(text: str, finish_reason: FinishReason, sampling: SamplingParams) -> ChatAnswer:
    """The answer, cut behind the first stop string; servers would take the string off too, which a parser may need."""
    ends = [text.find(stop) + len(stop) for stop in sampling.stop if stop in text]
    return ChatAnswer(text[: min(ends)], "stop") if ends else ChatAnswer(text, finish_reason)


async def _read(response: httpx.Response) -> bytes:
    content = bytearray()
    async for part in response.aiter_bytes():
        content += part
        if len(content) > _MOST_BYTES:
            raise _AttemptFailed("garbage", f"the answer is longer than {_MOST_BYTES} bytes")
    return bytes(content)
