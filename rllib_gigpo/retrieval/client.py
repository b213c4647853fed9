"""A retriever that asks a server over HTTP, and never waits for ever."""

from __future__ import annotations

import asyncio
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from urllib.parse import urlsplit, urlunsplit

from rllib_gigpo.retrieval.dialects import DIALECTS, passages_in, question
from rllib_gigpo.retrieval.passages import Passage, RetrievalFailure
from rllib_gigpo.seeds import derive_seed

logger = logging.getLogger(__name__)

# Causes of a failure, as metrics have them.
CONNECTION_ERROR = "RetrieverConnectionError"
TIMEOUT = "RetrieverTimeout"
HTTP_ERROR = "RetrieverHTTPError"
BAD_ANSWER = "RetrieverBadAnswer"

# How long after a search that failed with all its retries others make one attempt only: while a server is away, the
# hundreds of trajectories of an iteration must not wait for it one after the other.
OUTAGE_S = 30.0
_FIRST_DELAY_S = 0.5
_LONGEST_DELAY_S = 8.0
_LARGEST_ANSWER = 2**22
_WORTH_ANOTHER_TRY = (408, 425, 429)  # and 5xx


@dataclass(frozen=True)
class ServerAddress:
    """A retrieval server, and how it is asked.

    Attributes:
        url: Of its endpoint; without a path, /retrieve is meant.
        dialect: "search-r1" or "verl-agent", see `dialects`.
        timeout_s: For one attempt, from connecting to the last byte of the answer.
        retries: Attempts after the first one.

    Raises:
        ValueError: A value is not allowed.
    """

    url: str
    dialect: str = "search-r1"
    timeout_s: float = 30.0
    retries: int = 3

    def __post_init__(self) -> None:
        object.__setattr__(self, "url", _endpoint(self.url))
        if self.dialect not in DIALECTS:
            raise ValueError(f"retriever_dialect is {self.dialect!r}; allowed are {list(DIALECTS)}")
        if not _is_number(self.timeout_s) or self.timeout_s <= 0:
            raise ValueError(f"retriever_timeout_s is {self.timeout_s!r}; it must be a number above 0")
        if not isinstance(self.retries, int) or isinstance(self.retries, bool) or self.retries < 0:
            raise ValueError(f"retriever_retries is {self.retries!r}; it must be an integer of at least 0")


class HTTPRetriever:
    """Asks a retrieval server, in either dialect.

    An attempt that failed is repeated after a delay that doubles each time, from half a second to 8 seconds, by half of
    it more or less; the jitter is derived from the query. What the server says is wrong with the query (HTTP 4xx) is
    not repeated. For `OUTAGE_S` after a search that failed with all its retries, a search is one attempt.

    Args:
        address: The server. It is asked directly, whatever proxy the environment variables name.

    Raises:
        ImportError: The package httpx is missing.
    """

    def __init__(self, address: ServerAddress):
        self.address = address
        self._httpx = _httpx()
        self._searches = 0
        self._away_since: float | None = None

    def search(self, query: str, topk: int) -> list[Passage]:
        """Up to `topk` passages, the best first.

        Raises:
            RetrievalFailure: No attempt brought a whole and right answer.
        """
        self._searches += 1
        is_away = self._away_since is not None and time.monotonic() - self._away_since < OUTAGE_S
        retries = 0 if is_away else self.address.retries
        for attempt in range(retries + 1):
            try:
                found = self._ask(query, topk)
            except _AttemptFailed as failure:
                if attempt < retries and failure.is_worth_another_try:
                    time.sleep(self._delay_s(query, attempt))
                    continue
                if failure.is_worth_another_try and not is_away:
                    self._away_since = time.monotonic()
                raise RetrievalFailure(
                    failure.cause, f"the retriever {self.address.url} failed, attempt {attempt + 1}: {failure}"
                ) from failure
            self._away_since = None
            return found[:topk]
        raise AssertionError("an attempt either succeeds or fails")

    def _delay_s(self, query: str, attempt: int) -> float:
        seed = derive_seed("retrieval delay", query, attempt, self._searches)
        return float(min(_FIRST_DELAY_S * 2**attempt, _LONGEST_DELAY_S) * (0.5 + seed / 2**63))

    def _ask(self, query: str, topk: int) -> list[Passage]:
        # In a thread with a loop of its own: a rollout already runs one here. On a loop, because the time limits of
        # synchronous clients are for each piece of an answer, and a server may send one byte at a time.
        with ThreadPoolExecutor(max_workers=1) as thread:
            body = thread.submit(asyncio.run, self._exchange(query, topk)).result()
        try:
            return passages_in(body)
        except ValueError as error:
            raise _AttemptFailed(BAD_ANSWER, f"its answer is wrong: {error}") from error

    async def _exchange(self, query: str, topk: int) -> bytes:
        """The body of the server's answer."""
        httpx = self._httpx
        limit = asyncio.timeout(self.address.timeout_s)
        try:
            async with (
                limit,
                # Certificates are loaded by every client, and take tens of milliseconds.
                httpx.AsyncClient(timeout=None, trust_env=False, verify=self.address.url.startswith("https")) as client,
                client.stream("POST", self.address.url, json=question(self.address.dialect, query, topk)) as response,
            ):
                body = bytearray()
                async for piece in response.aiter_bytes():
                    body += piece
                    if len(body) > _LARGEST_ANSWER:
                        raise _AttemptFailed(BAD_ANSWER, f"its answer is longer than {_LARGEST_ANSWER} bytes")
        except httpx.DecodingError as error:
            raise _AttemptFailed(BAD_ANSWER, f"its answer cannot be decoded: {error}") from error
        except (httpx.TransportError, OSError) as error:
            # What the limit breaks off may fail in a way of its own while it is wound up.
            if limit.expired():
                raise _AttemptFailed(TIMEOUT, f"no whole answer within {self.address.timeout_s:g} s") from error
            raise _AttemptFailed(CONNECTION_ERROR, f"{type(error).__name__}: {error}") from error
        status = response.status_code
        if status != 200:
            said = body[:200].decode("utf-8", "replace")
            again = status >= 500 or status in _WORTH_ANOTHER_TRY
            raise _AttemptFailed(HTTP_ERROR, f"HTTP {status}: {said}", is_worth_another_try=again)
        return bytes(body)


@cache
def shared_http_retriever(address: ServerAddress) -> HTTPRetriever:
    """The retriever of this process for a server: all who ask it know when it is away."""
    return HTTPRetriever(address)


class _AttemptFailed(Exception):
    def __init__(self, cause: str, message: str, *, is_worth_another_try: bool = True):
        super().__init__(message)
        self.cause = cause
        self.is_worth_another_try = is_worth_another_try


def _httpx() -> ModuleType:
    try:
        import httpx
    except ImportError as error:
        raise ImportError(
            f"asking a retrieval server needs the package httpx, and {error.name or error} is missing: "
            'pip install "rllib-gigpo[search]"'
        ) from error
    return httpx


def _endpoint(url: object) -> str:
    """The URL, with /retrieve where it has no path. Raises ValueError where it is none."""
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and " " not in parts.netloc:
            return urlunsplit(parts._replace(path="/retrieve") if parts.path in ("", "/") else parts)
    except ValueError:  # a port that is no number, half an IPv6 address
        pass
    raise ValueError(f"retriever_url is {url!r}; it must be like 'http://127.0.0.1:8000/retrieve'")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
