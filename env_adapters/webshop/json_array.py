"""Reads a long JSON array element by element: WebShop's catalogue is five gigabytes of one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_CHUNK = 2**20  # characters
_LONGEST_ELEMENT = 2**24  # characters: what is not complete by then is broken
_BLANKS = " \t\r\n"


class BrokenFileError(ValueError):
    """A file of the data that cannot be read."""


def json_array(path: Path) -> Iterator[Any]:
    """The elements of the array that a file holds.

    Raises:
        BrokenFileError: It cannot be opened, is no text, or no JSON array; what came before is yielded first.
    """
    try:
        with path.open(encoding="utf-8") as file:
            yield from _elements(iter(lambda: file.read(_CHUNK), ""))
    except (OSError, ValueError) as error:
        raise BrokenFileError(f"{path}: {error}") from error


def _elements(chunks: Iterator[str]) -> Iterator[Any]:
    decoder = json.JSONDecoder()
    text, position, dropped = "", 0, 0  # `dropped` characters of the file came before `text`
    expected = "["
    broken: json.JSONDecodeError | None = None  # why the element at `position` is none, as far as it was read
    for chunk in chunks:
        text, position, dropped = text[position:] + chunk, 0, dropped + position
        while (position := _after_blanks(text, position)) < len(text):
            if expected == "end":
                raise ValueError(f"character {dropped + position}: something follows the array")
            if text[position] == "]" and expected != "[":
                expected, position = "end", position + 1
            elif expected in "[,":
                if text[position] != expected:
                    raise ValueError(f"character {dropped + position}: it is no JSON array of objects")
                expected, position = "element", position + 1
            else:
                try:
                    element, position = decoder.raw_decode(text, position)
                except json.JSONDecodeError as error:
                    broken = error
                    if len(text) - position < _LONGEST_ELEMENT:
                        break  # perhaps the rest of it is in the next chunk
                    raise ValueError(f"character {dropped + error.pos}: {error.msg}") from error
                expected, broken = ",", None
                yield element
    if broken is not None:
        raise ValueError(f"character {dropped + broken.pos}: {broken.msg}")
    if expected != "end":
        raise ValueError(f"character {dropped + position}: the array is cut off")


def _after_blanks(text: str, position: int) -> int:
    while position < len(text) and text[position] in _BLANKS:
        position += 1
    return position
