"""What an OpenAI-compatible server has answered: read with care, for it may be anything."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from rllib_gigpo.inference.protocol import FinishReason

_SHOWN_CHARACTERS = 300


class GarbageAnswer(Exception):
    """A successful answer that is no chat completion."""


class ChatCompletion(NamedTuple):
    """What a chat completion says; the numbers of tokens are None where it does not tell."""

    text: str
    finish_reason: FinishReason
    prompt_tokens: int | None
    response_tokens: int | None


def read_completion(content: bytes) -> ChatCompletion:
    """The first choice of a chat completion.

    Servers that take a model's reasoning out of its answer get it back in: parsers of responses look for it.

    Raises:
        GarbageAnswer: `content` is something else.
    """
    answer = _json(content)
    choices = answer.get("choices") if isinstance(answer, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise GarbageAnswer(f"it has no choices[0].message: {_start(content)}")
    text = message.get("content")
    if text is not None and not isinstance(text, str):
        raise GarbageAnswer(f"choices[0].message.content is a {type(text).__name__}")
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    usage = answer.get("usage")
    return ChatCompletion(
        text=_with_reasoning(text or "", reasoning if isinstance(reasoning, str) else ""),
        finish_reason="length" if choice.get("finish_reason") == "length" else "stop",
        prompt_tokens=_count(usage, "prompt_tokens"),
        response_tokens=_count(usage, "completion_tokens"),
    )


def error_message(content: bytes) -> str:
    """What a server says is wrong, on one line: the message of its error object, or the start of what it sent."""
    try:
        answer = _json(content)
    except GarbageAnswer:
        return _start(content)
    error = answer.get("error", answer) if isinstance(answer, dict) else answer
    message = error.get("message") or error.get("detail") if isinstance(error, dict) else error
    return " ".join(str(message).split())[:_SHOWN_CHARACTERS] if message else _start(content)


def error_code(content: bytes) -> str:
    """The code of a server's error object; "" where there is none."""
    try:
        answer = _json(content)
    except GarbageAnswer:
        return ""
    error = answer.get("error") if isinstance(answer, dict) else None
    return str(error.get("code") or "") if isinstance(error, dict) else ""


def _with_reasoning(text: str, reasoning: str) -> str:
    return f"<think>{reasoning}</think>{text}" if reasoning and "<think>" not in text else text


def _json(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise GarbageAnswer(f"it is no JSON: {_start(content)}") from error


def _count(usage: Any, name: str) -> int | None:
    value = usage.get(name) if isinstance(usage, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _start(content: bytes) -> str:
    text = " ".join(content[:_SHOWN_CHARACTERS].decode(errors="replace").split())
    return repr(text) if text else "nothing"
