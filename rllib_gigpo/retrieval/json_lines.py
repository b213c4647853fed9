"""Reads files with one JSON object a line, and says of a wrong line which one it is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple


class Line(NamedTuple):
    """A line that holds an object.

    Attributes:
        number: From 1.
        start: Offset of its first byte in the file.
        content: The object.
    """

    number: int
    start: int
    content: dict[str, Any]


def read_json_lines(path: Path) -> Iterator[Line]:
    """The lines of a file in order; blank ones are left out.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: A line holds something else than an object in JSON; the message has its number.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path} is no file")
    start = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield Line(number, start, object_of_line(path, number, line))
            start += len(line)


def object_of_line(path: Path, number: int, line: bytes) -> dict[str, Any]:
    """The object in a line. Raises ValueError where it holds none."""
    try:
        content = json.loads(line)
    except json.JSONDecodeError as error:
        # Its own text counts lines inside of this one.
        raise ValueError(f"{path}, line {number} is no JSON: {error.msg}, character {error.pos}") from error
    except (ValueError, RecursionError) as error:  # not UTF-8 is a ValueError too
        raise ValueError(f"{path}, line {number} is no JSON: {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path}, line {number} is a JSON {type(content).__name__}; it must be an object")
    return content


def readable(text: str) -> str:
    """`text` without the halves of surrogate pairs that JSON's escapes can spell and no encoding can write."""
    return text.encode("utf-8", "replace").decode("utf-8")
