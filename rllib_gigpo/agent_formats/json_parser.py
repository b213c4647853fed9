"""The parser of responses in JSON, as the papers on card games ask for them."""

from __future__ import annotations

import json
import re
from typing import Any

from rllib_gigpo.agent_formats.parsed_response import ParsedResponse, invalid_response, valid_action

_THINK = re.compile(r"\s*<think>.*?</think>", re.DOTALL)
_FENCE = re.compile(r"\s*```(?:json)?\s*(.*?)\s*```\s*", re.DOTALL | re.IGNORECASE)


class _RepeatedKeyError(Exception):
    """An object holds a key twice; its argument is the key."""


def json_action(text: str) -> ParsedResponse:
    """Reads one JSON object with "thoughts" and "action" (Zhai et al. 2024), and nothing else but white space.

    The object may stand in a ```json fence, and after a `<think>...</think>`. Case does not matter in its keys, other
    keys may be there, and a number is taken for its digits. The action is lower-cased, its white space collapsed. The
    first of these reasons that applies is given: `no_json` (no object, or one that JSON cannot read), `repeated_key`,
    `text_outside_json`, `no_think` (no "thoughts"), `no_action`, `action_is_no_text`, `empty_action`.
    """
    thought = _THINK.match(text)
    text = text[thought.end() :] if thought else text
    fenced = _FENCE.fullmatch(text)
    text = fenced.group(1) if fenced else text
    start = text.find("{")
    if start < 0:
        return invalid_response("no_json")
    try:
        # strict=False: models break lines inside their thoughts.
        answer, end = json.JSONDecoder(strict=False, object_pairs_hook=_lower_keys).raw_decode(text, start)
    except _RepeatedKeyError:
        return invalid_response("repeated_key")
    except (ValueError, RecursionError):
        return invalid_response("no_json")
    if text[:start].strip() or text[end:].strip():
        return invalid_response("text_outside_json")
    if "thoughts" not in answer:
        return invalid_response("no_think")
    if "action" not in answer:
        return invalid_response("no_action")
    action = answer["action"]
    if isinstance(action, bool) or not isinstance(action, str | int):
        return invalid_response("action_is_no_text")
    return valid_action(str(action))


def _lower_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key.lower() in found:
            raise _RepeatedKeyError(key)
        found[key.lower()] = value
    return found
