"""Parsers of responses in `<think>` and `<action>` tags."""

from __future__ import annotations

import re

from rllib_gigpo.agent_formats.parsed_response import ParsedResponse, invalid_response, valid_action

_TAGS = ("<think>", "</think>", "<action>", "</action>")
# Unified ideographs: what verl-agent takes for a model that has left its language.
_CJK = re.compile(r"[\u4e00-\u9fff]")


def think_action(text: str) -> ParsedResponse:
    """Reads one `<think>...</think>` followed by one `<action>...</action>`, and nothing else but white space.

    Tags are lower case; inside them any character may stand. The action is lower-cased, its white space collapsed. The
    first of these reasons that applies is given: `upper_case_tags` (in lower case none would be missing), `no_think`,
    `no_action` (a tag of the pair is missing), `multiple_thinks`, `multiple_actions`, `nested_tags` (a tag of one pair
    stands inside the other), `wrong_order`, `text_outside_tags`, `empty_action`.
    """
    if any(tag not in text for tag in _TAGS) and all(tag in text.lower() for tag in _TAGS):
        return invalid_response("upper_case_tags")
    think_open, think_close, action_open, action_close = (text.count(tag) for tag in _TAGS)
    if not (think_open and think_close):
        return invalid_response("no_think")
    if not (action_open and action_close):
        return invalid_response("no_action")
    if max(think_open, think_close) > 1:
        return invalid_response("multiple_thinks")
    if max(action_open, action_close) > 1:
        return invalid_response("multiple_actions")

    think_start, think_end, action_start, action_end = (text.index(tag) for tag in _TAGS)
    if think_start < think_end and action_start < action_end and think_start < action_end and action_start < think_end:
        return invalid_response("nested_tags")
    if not think_start < think_end < action_start < action_end:
        return invalid_response("wrong_order")

    before, rest = text.split("<think>")
    _, rest = rest.split("</think>")
    between, rest = rest.split("<action>")
    action, after = rest.split("</action>")
    if before.strip() or between.strip() or after.strip():
        return invalid_response("text_outside_tags")
    return valid_action(action)


def first_action(text: str) -> ParsedResponse:
    """Reads what verl-agent (Feng et al. 2025, GiGPO) reads: the first `<action>...</action>`, wherever it stands.

    Tags are of any case, and a response may hold more than its tags, even a second action, which is not read. It is
    invalid for `no_action` (no such pair), `no_think` (no `<think>` or no `</think>` anywhere), `cjk_characters` (a
    Chinese or Japanese character anywhere) or `empty_action`. Where verl-agent sends the last characters of an invalid
    response to the environment, none is sent here.
    """
    lower = text.lower()
    _, opened, rest = lower.partition("<action>")
    action, closed, _ = rest.partition("</action>")
    if not (opened and closed):
        return invalid_response("no_action")
    if "<think>" not in lower or "</think>" not in lower:
        return invalid_response("no_think")
    if _CJK.search(text):
        return invalid_response("cjk_characters")
    return valid_action(action)
