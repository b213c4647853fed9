"""What every chat engine promises: the text of a message in, the text of an answer out.

For evaluation by prompting alone, where nobody needs token ids. Training samples from the engines of `protocol`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Protocol

from rllib_gigpo.inference.protocol import FinishReason, SamplingParams


@dataclass(frozen=True)
class ChatRequest:
    """One answer to ask for.

    Attributes:
        message: Of the user; the conversation holds nothing else.
        seed: 63-bit seed of this answer, for engines that have one.
        sampling: How to sample. An answer with a stop string ends behind it.
        order: Sort key of the request, as in `GenerationRequest`.
    """

    message: str
    seed: int
    sampling: SamplingParams
    order: tuple[int, ...] = ()


@dataclass(frozen=True)
class ChatAnswer:
    """An answer: its text, without special tokens, and whether it ended by itself ("stop") or was cut ("length")."""

    text: str
    finish_reason: FinishReason


@dataclass
class ChatUsage:
    """What an engine was asked and has used so far.

    Attributes:
        requests: Answers that were asked for.
        retries: Attempts beyond the first of a request.
        retry_causes: Those, by what was wrong with the attempt before.
        failed: Requests that no attempt has answered.
        prompt_characters: Of the messages of all requests.
        prompt_tokens, response_tokens: As counted by the engine, over the answers that came with a count.
        answers_without_token_counts: The others.
    """

    requests: int = 0
    retries: int = 0
    retry_causes: Counter[str] = field(default_factory=Counter)
    failed: int = 0
    prompt_characters: int = 0
    prompt_tokens: int = 0
    response_tokens: int = 0
    answers_without_token_counts: int = 0

    def asked(self, request: ChatRequest) -> None:
        """Counts a request, before it is sent."""
        self.requests += 1
        self.prompt_characters += len(request.message)


class RequestFailed(RuntimeError):
    """A request that got no answer; others may get one.

    Attributes:
        cause: A short word that results count.
    """

    def __init__(self, cause: str, message: str):
        super().__init__(message)
        self.cause = cause


class EndpointRefused(ValueError):
    """A server that will answer no request of this run: a wrong key, an unknown model, a wrong address."""


class EndpointDown(RuntimeError):
    """A server that has not answered for so long that it is given up."""


class ChatClient(Protocol):
    """One coroutine's door to an engine; an async context manager, closed when there is nothing more to ask."""

    async def __aenter__(self) -> ChatClient: ...

    async def __aexit__(self, *exc_info: Any) -> None: ...

    async def ask(self, request: ChatRequest) -> ChatAnswer:
        """The answer to a request, one at a time.

        Raises:
            RequestFailed: There is none.
            EndpointRefused, EndpointDown: There will be none to any other request either.
        """
        ...


class ChatEngine(Protocol):
    """Answers many coroutines at once; an async context manager.

    Attributes:
        usage: What it was asked so far.
    """

    usage: ChatUsage

    async def __aenter__(self) -> ChatEngine: ...

    async def __aexit__(self, *exc_info: Any) -> None: ...

    def client(self) -> ChatClient:
        """A new client, open from now on."""
        ...

    def fits(self, message: str, sampling: SamplingParams) -> bool:
        """Whether a message and the longest answer fit into the context; True where the engine does not know."""
        ...
