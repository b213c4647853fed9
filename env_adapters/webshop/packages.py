"""Imports what the extra brings, late: nothing of it is needed before a shop is made."""

from __future__ import annotations

import logging
from functools import cache
from types import ModuleType
from typing import Any, NamedTuple


class Packages(NamedTuple):
    """What is used of the packages."""

    bm25s: ModuleType
    stemmer: Any  # PyStemmer's Porter stemmer, the one that Lucene uses


@cache
def packages() -> Packages:
    """The packages, imported once.

    Raises:
        ImportError: One of them is missing; the message names the extra.
    """
    level = logging.getLogger("bm25s").level
    try:
        import bm25s
        import Stemmer
    except ImportError as error:
        raise ImportError(
            f"WebShop searches with the packages bm25s and PyStemmer, and {error.name or error} is missing: "
            'pip install "rllib-gigpo[webshop]"'
        ) from error
    # On import it makes its logger report everything, down to each index it builds.
    logging.getLogger("bm25s").setLevel(max(level, logging.WARNING))
    return Packages(bm25s, Stemmer.Stemmer("porter"))
