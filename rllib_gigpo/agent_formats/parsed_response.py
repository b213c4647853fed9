"""What a parser makes of the text of a response."""

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


def valid_action(text: str) -> ParsedResponse:
    """The action, lower-cased and its white space collapsed to single blanks; `empty_action` where nothing is left."""
    action = " ".join(text.lower().split())
    return ParsedResponse(action, True, None) if action else invalid_response("empty_action")


def invalid_response(reason: str) -> ParsedResponse:
    """No action, for this reason."""
    return ParsedResponse("", False, reason)
