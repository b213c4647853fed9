"""The thought in a response, for agents that are shown what they thought before."""

from __future__ import annotations

import json
import re

_THINK = re.compile(r"<think>(.*?)(?:</think>|\Z)", re.DOTALL | re.IGNORECASE)
_ACTION = re.compile(r"<action>.*", re.DOTALL | re.IGNORECASE)


def thought_of(text: str) -> str:
    """What a response says beside its action, its white space collapsed; "" where that is nothing.

    That is what stands in `<think>` tags; or under "thoughts" in a response of JSON; or else before an `<action>` tag.
    """
    think = _THINK.search(text)
    if think is not None:
        return _on_one_line(think.group(1))
    thoughts = _thoughts_of_json(text)
    return _on_one_line(_ACTION.sub("", text) if thoughts is None else thoughts)


def _thoughts_of_json(text: str) -> str | None:
    start, end = text.find("{"), text.rfind("}")
    if start < 0 or end < start:
        return None
    try:
        answer = json.loads(text[start : end + 1], strict=False)
    except (ValueError, RecursionError):
        return None
    found = next((value for key, value in answer.items() if key.lower() == "thoughts"), "")
    return found if isinstance(found, str) else ""


def _on_one_line(text: str) -> str:
    return " ".join(text.split())
