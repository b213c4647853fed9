"""A catalogue to shop in: products, goals and search, in an SQLite database beside a search index.

Nothing of it is kept in memory but what was looked at last: environments of many processes share the files.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from rllib_gigpo.env_adapters.webshop.goals import Goal
from rllib_gigpo.env_adapters.webshop.products import Product
from rllib_gigpo.env_adapters.webshop.search_index import SearchIndex

DATABASE = "catalogue.sqlite"
INDEX = "search_index"
_REMEMBERED_PRODUCTS = 2048


class Catalogue:
    """Reads what `catalogue_building.write_catalogue` has written.

    Attributes:
        skipped: How many rows and goals were left out, or are not quite as they should be, by reason.
        num_products, num_goals: How many there are.
        characters: All that occur in its texts.
    """

    def __init__(self, database: sqlite3.Connection, index: SearchIndex):
        self._database = database
        self._lock = threading.Lock()  # environments of one process may live in several threads
        self._index = index
        self.skipped: Mapping[str, int] = self._fact("skipped")
        self.num_products = int(self._fact("num_products"))
        self.num_goals = int(self._fact("num_goals"))
        self.characters = str(self._fact("characters"))
        self.product = lru_cache(_REMEMBERED_PRODUCTS)(self._product)

    @classmethod
    def open(cls, folder: Path) -> Catalogue:
        """The catalogue in a folder, which is only read."""
        database = sqlite3.connect(f"{(folder / DATABASE).as_uri()}?mode=ro", uri=True, check_same_thread=False)
        return cls(database, SearchIndex.load(folder / INDEX))

    def goal(self, number: int) -> Goal:
        """The goal of that number, from 0 on, in the shuffled order."""
        return Goal.from_json(self._one("SELECT content FROM goals WHERE number = ?", number))

    def search(self, words: str, *, limit: int) -> list[str]:
        """The asins of up to `limit` products, best first."""
        rows = self._index.search(words, limit=limit)
        return [self._one("SELECT asin FROM products WHERE number = ?", row) for row in rows]

    def _product(self, asin: str) -> Product:
        return Product.from_json(self._one("SELECT content FROM products WHERE asin = ?", asin))

    def _fact(self, name: str) -> Any:
        return json.loads(self._one("SELECT value FROM facts WHERE name = ?", name))

    def _one(self, query: str, key: Any) -> str:
        with self._lock:
            found = self._database.execute(query, (key,)).fetchone()
        if found is None:
            raise KeyError(f"the catalogue has no {key!r}: {query}")
        return str(found[0])
