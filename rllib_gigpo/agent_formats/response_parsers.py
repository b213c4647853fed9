"""From the text of a response to an action, and whether it may count as one."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class ParsedResponse(NamedTuple):
    """What a response says.

    Attributes:
        action: The action for the environment; "" where there is none, which every environment takes as a no-op.
        is_valid: Whether the response follows the grammar. It says nothing about whether the action is admissible.
        reason: Why not, a short snake_case word that metrics count; None where it is valid.
    """

    action: str
    is_valid: bool
    reason: str | None


ResponseParser = Callable[[str], ParsedResponse]


def think_action(text: str) -> ParsedResponse:
    """Reads one `<think>...</think>` followed by one `<action>...</action>`, and nothing else but white space.

    Tags are lower case. The action is stripped, lower-cased and its inner white space collapsed to single spaces.
    The first of these reasons that applies is given: `no_think`, `no_action` (a tag of the pair is missing),
    `multiple_thinks`, `multiple_actions`, `wrong_order` (a tag closes before it opens, or stands inside the other
    pair), `text_outside_tags`, `empty_action`.
    """
    think_open, think_close = text.count("<think>"), text.count("</think>")
    action_open, action_close = text.count("<action>"), text.count("</action>")
    if not (think_open and think_close):
        return _invalid("no_think")
    if not (action_open and action_close):
        return _invalid("no_action")
    if max(think_open, think_close) > 1:
        return _invalid("multiple_thinks")
    if max(action_open, action_close) > 1:
        return _invalid("multiple_actions")

    positions = [text.index(tag) for tag in ("<think>", "</think>", "<action>", "</action>")]
    if positions != sorted(positions):
        return _invalid("wrong_order")

    before, rest = text.split("<think>")
    _, rest = rest.split("</think>")
    between, rest = rest.split("<action>")
    action, after = rest.split("</action>")
    if before.strip() or between.strip() or after.strip():
        return _invalid("text_outside_tags")

    action = " ".join(action.lower().split())
    return ParsedResponse(action, True, None) if action else _invalid("empty_action")


RESPONSE_PARSERS: dict[str, ResponseParser] = {"think_action": think_action}


def response_parser(name_or_function: str | ResponseParser) -> ResponseParser:
    """The parser of that name, or the function itself.

    Raises:
        ValueError: No parser has that name.
    """
    if callable(name_or_function):
        return name_or_function
    if not isinstance(name_or_function, str) or name_or_function not in RESPONSE_PARSERS:
        raise ValueError(
            f"response_parser is {name_or_function!r}; known are {sorted(RESPONSE_PARSERS)}, or give a function"
        )
    return RESPONSE_PARSERS[name_or_function]


def _invalid(reason: str) -> ParsedResponse:
    return ParsedResponse("", False, reason)
