"""How a response, and an action, says what to search for or what the answer is."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from rllib_gigpo.agent_formats.parsed_response import ParsedResponse, invalid_response

_THOUGHT = re.compile(r"<think>.*?</think>", re.DOTALL)
_ACTION = re.compile(r"<(search|answer)>(.*?)</\1>", re.DOTALL)


class Act(NamedTuple):
    """What an action does.

    Attributes:
        kind: "search" or "answer".
        text: The query, or the answer; not empty.
    """

    kind: Literal["search", "answer"]
    text: str


def search_or_answer(text: str) -> ParsedResponse:
    """Reads one `<search>…</search>` or one `<answer>…</answer>`; that is also the action, its white space collapsed.

    As in verl-agent a thought is not asked for, and other text may stand around. What is inside `<think>…</think>` is
    not read. A response is invalid for `no_action` (no whole pair of tags), `several_actions` (two pairs, of one kind
    or of both) or `empty_action`.
    """
    found = _ACTION.findall(_THOUGHT.sub("", text))
    if len(found) != 1:
        return invalid_response("several_actions" if found else "no_action")
    ((kind, content),) = found
    content = " ".join(content.split())
    if not content:
        return invalid_response("empty_action")
    return ParsedResponse(f"<{kind}>{content}</{kind}>", True, None)


def act_of(action: str) -> Act | None:
    """What an action does; None where it is none."""
    found = _ACTION.fullmatch(action.strip())
    if found is None or not found[2].strip():
        return None
    return Act("search" if found[1] == "search" else "answer", " ".join(found[2].split()))
