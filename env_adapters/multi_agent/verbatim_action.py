"""A response parser for games to whose moves upper and lower case matter."""

from __future__ import annotations

from rllib_gigpo.agent_formats import ParsedResponse, think_action


def verbatim_action(text: str) -> ParsedResponse:
    """As `think_action`, for the same reasons invalid, but the action is what stands in its tags, stripped."""
    parsed = think_action(text)
    if not parsed.is_valid:
        return parsed
    return parsed._replace(action=text.split("<action>")[1].split("</action>")[0].strip())
