"""The parsers that a config knows by name, and those of a user's own."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rllib_gigpo.agent_formats.json_parser import json_action
from rllib_gigpo.agent_formats.parsed_response import ParsedResponse, ResponseParser, invalid_response
from rllib_gigpo.agent_formats.references import imported, is_reference
from rllib_gigpo.agent_formats.tag_parsers import first_action, think_action

RESPONSE_PARSERS: dict[str, ResponseParser] = {
    "first_action": first_action,
    "json_action": json_action,
    "think_action": think_action,
}

# What models write that a parser must not fall over. Checked before anything is started.
_PROBES = (
    "",
    "<think>a</think><action>b</action>",
    '{"thoughts": "a", "action": "b"}',
    "<ACTION>Größe 漢字 \U0001f0a1\n</think><think><action>",
)


class ResponseParserError(ValueError):
    """A response parser raised, or returned something that is no ParsedResponse."""


@dataclass(frozen=True)
class OneOf:
    """A parser for games with few actions: what another parser reads must hold exactly one of them, as a word.

    So "go up" is "up". "down, not up" is invalid for `several_actions`, as is "up, up"; "jump" for `unknown_action`.

    Attributes:
        choices: The actions, in lower case.
        parser: Reads the response.
    """

    choices: tuple[str, ...]
    parser: str | ResponseParser = "think_action"

    def __call__(self, text: str) -> ParsedResponse:
        parsed = response_parser(self.parser)(text)
        if not parsed.is_valid:
            return parsed
        longest_first = sorted(self.choices, key=len, reverse=True)
        found = re.findall(rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)", parsed.action)
        if len(found) == 1:
            return parsed._replace(action=found[0])
        return invalid_response("several_actions" if found else "unknown_action")


def response_parser(name_or_function: str | ResponseParser) -> ResponseParser:
    """The parser of that name, the one that "package.module:name" names, or the function itself.

    Raises:
        ValueError: No parser has that name, or it cannot be imported, or is no function.
    """
    found = name_or_function
    if isinstance(found, str) and is_reference(found):
        found = imported("response_parser", found)
        if not callable(found):
            raise ValueError(f"response_parser={name_or_function!r} is a {type(found).__name__}; it must be a function")
    if callable(found):
        return found
    if not isinstance(found, str) or found not in RESPONSE_PARSERS:
        raise ValueError(
            f"response_parser is {found!r}; known are {sorted(RESPONSE_PARSERS)}, or give a function, or "
            "'package.module:function'"
        )
    return RESPONSE_PARSERS[found]


def parse(parser: ResponseParser, text: str) -> ParsedResponse:
    """What `parser` makes of `text`.

    Raises:
        ResponseParserError: It raises, or returns something else than a ParsedResponse with a str as its action, and a
            reason where it is invalid.
    """
    name = getattr(parser, "__qualname__", parser)
    shown = repr(text if len(text) <= 80 else f"{text[:80]}…")
    try:
        parsed = parser(text)
    except Exception as error:
        raise ResponseParserError(
            f"response_parser={name!r} raised {type(error).__name__}: {error} on the response {shown}; it must return "
            "ParsedResponse('', False, reason) for what it cannot read"
        ) from error
    if not (isinstance(parsed, ParsedResponse) and isinstance(parsed.action, str)):
        raise ResponseParserError(
            f"response_parser={name!r} returned {parsed!r} for the response {shown}; it must return a ParsedResponse "
            "with a str as its action"
        )
    if not isinstance(parsed.is_valid, bool) or not (
        parsed.is_valid or (isinstance(parsed.reason, str) and parsed.reason)
    ):
        raise ResponseParserError(
            f"response_parser={name!r} returned {parsed!r} for the response {shown}; is_valid must be True, or False "
            "with a word as its reason"
        )
    return parsed


def check_parser(name_or_function: str | ResponseParser) -> None:
    """Has a parser read some responses, good and bad ones. Raises ValueError where it cannot."""
    parser = response_parser(name_or_function)
    for text in _PROBES:
        parse(parser, text)
