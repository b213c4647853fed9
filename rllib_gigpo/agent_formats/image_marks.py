"""Marks that stand for images in the text of a user message, until it becomes a prompt."""

from __future__ import annotations

import re

# Control characters: no template or environment writes them by chance.
_MARK = re.compile("\x00image (\\d+)\x00")


def image_mark(index: int) -> str:
    """What stands for image `index` of a prompt."""
    return f"\x00image {index}\x00"


def split_at_marks(message: str, num_images: int) -> list[str | int]:
    """The texts of a message that are not empty, and in their places the indices, below `num_images`, of its images.

    What looks like a mark of another image is text.
    """
    parts: list[str | int] = []
    end = 0
    for mark in _MARK.finditer(message):
        if int(mark[1]) < num_images:
            parts += [message[end : mark.start()], int(mark[1])]
            end = mark.end()
    return [part for part in (*parts, message[end:]) if part != ""]
