"""What a search shows to the agent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rllib_gigpo.retrieval.passages import Passage

NOTHING_FOUND = "<information>\nNothing was found.\n</information>"
NO_ANSWER = "<information>\nThe search engine does not answer.\n</information>"


class Information(NamedTuple):
    """A text in `<information>` tags.

    Attributes:
        text: The observation.
        num_cut: Passages that were too long, and so are shown in part.
    """

    text: str
    num_cut: int


def information(passages: Sequence[Passage], *, max_passage_characters: int) -> Information:
    """The passages as Search-R1 shows them, "Doc 1(Title: Velmora) Velmora is a town.", one a line.

    The title of a passage is its first line. Line breaks in the rest become blanks.
    """
    if not passages:
        return Information(NOTHING_FOUND, 0)
    lines = []
    for number, passage in enumerate(passages, start=1):
        title, _, text = passage.contents[:max_passage_characters].partition("\n")
        title, text = title.strip(' "'), " ".join(text.split())
        lines.append(f"Doc {number}(Title: {title}) {text}".rstrip())
    num_cut = sum(len(passage.contents) > max_passage_characters for passage in passages)
    return Information("\n".join(("<information>", *lines, "</information>")), num_cut)
