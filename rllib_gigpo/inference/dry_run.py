"""An engine that asks nobody: about how much a run would ask, before it costs anything."""

from __future__ import annotations

from typing import Any

from rllib_gigpo.inference.chat import ChatAnswer, ChatRequest, ChatUsage
from rllib_gigpo.inference.protocol import SamplingParams

# A rule of thumb for English text.
_CHARACTERS_PER_TOKEN = 4


class DryRun:
    """A `ChatEngine` whose every answer is empty.

    An empty answer is no action: where that changes nothing, games last until their step limit and no task is done,
    which makes a run of as many requests as there can be.
    """

    def __init__(self) -> None:
        self.usage = ChatUsage()
        self.first_message: str | None = None
        self._most_response_tokens = 0

    async def __aenter__(self) -> DryRun:
        return self

    async def __aexit__(self, *exc_info: Any) -> None:
        """Nothing to close."""

    def client(self) -> DryRun:
        """Itself: it holds nothing for anybody."""
        return self

    def fits(self, message: str, sampling: SamplingParams) -> bool:
        return True

    async def ask(self, request: ChatRequest) -> ChatAnswer:
        self.usage.asked(request)
        self.first_message = request.message if self.first_message is None else self.first_message
        self._most_response_tokens += request.sampling.max_response_tokens
        return ChatAnswer("", "stop")

    def estimate(self) -> dict[str, Any]:
        """requests, prompt_characters (without what answers would add to a history), prompt_tokens (four characters
        each), response_tokens (each answer as long as allowed), and the first message."""
        return {
            "requests": self.usage.requests,
            "prompt_characters": self.usage.prompt_characters,
            "prompt_tokens": -(-self.usage.prompt_characters // _CHARACTERS_PER_TOKEN),
            "response_tokens": self._most_response_tokens,
            "first_message": self.first_message,
        }
