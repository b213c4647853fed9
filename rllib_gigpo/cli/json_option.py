"""Options whose value is a JSON object."""

from __future__ import annotations

import json
from typing import Any


def json_object(option: str, text: str, example: str) -> dict[str, Any]:
    """The object in `text`.

    Raises:
        ValueError: `text` is not JSON, not an object, or has a key twice; the message shows `example`.
    """
    try:
        value: Any = json.loads(text, object_pairs_hook=_without_double_keys)
    except ValueError as error:
        raise ValueError(f"{option} {text!r} is not JSON ({error}); write it like {_shell(example)}") from error
    if not isinstance(value, dict):
        raise ValueError(f"{option} {text!r} is not a JSON object; write it like {_shell(example)}")
    return value


def _without_double_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"key {key!r} stands twice")
        found[key] = value
    return found


def _shell(text: str) -> str:
    return f"'{text}'"
