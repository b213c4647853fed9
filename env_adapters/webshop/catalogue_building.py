"""Makes a catalogue of rows in WebShop's formats: what is broken is left out and counted."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rllib_gigpo.env_adapters.webshop.catalogue import DATABASE, INDEX, Catalogue
from rllib_gigpo.env_adapters.webshop.data_files import DataFiles
from rllib_gigpo.env_adapters.webshop.generated_catalogue import (
    generated_attributes,
    generated_instructions,
    generated_items,
)
from rllib_gigpo.env_adapters.webshop.goals import Goal, human_goals, synthetic_goals
from rllib_gigpo.env_adapters.webshop.products import DATA_SEED, BrokenRowError, Product, product_of_row
from rllib_gigpo.env_adapters.webshop.search_index import SearchIndex, searched_text

logger = logging.getLogger(__name__)

# Of `Catalogue.skipped`: these are counted, but the product is in the catalogue, at the price of the published code.
WITHOUT_PRICE = "products_without_price"

_TABLES = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE products (number INTEGER PRIMARY KEY, asin TEXT NOT NULL UNIQUE, content TEXT NOT NULL);
CREATE TABLE goals (number INTEGER PRIMARY KEY, content TEXT NOT NULL);
"""
# From a product and what the goal file says of it to its goals.
_GoalsOf = Callable[[Product, Any, Counter[str]], Iterator[Goal]]


def build_from_files(files: DataFiles, folder: Path) -> None:
    """Writes the catalogue of these files into a folder, in a form for `Catalogue.open`.

    Raises:
        BrokenFileError: A file cannot be read.
        ValueError: There are fewer products than are asked for, or no goal is left.
    """
    attributes = files.attributes_of_products()
    goals_of: _GoalsOf = synthetic_goals if files.instructions is None else human_goals
    instructions = attributes if files.instructions is None else files.instructions_of_products()
    database = sqlite3.connect(folder / DATABASE)
    try:
        index = write_catalogue(database, files.rows(), attributes, instructions, goals_of, source=str(files.items))
        (count,) = database.execute("SELECT value FROM facts WHERE name = 'num_rows'").fetchone()
        if files.num_products is not None and int(count) < files.num_products:
            raise ValueError(f"num_products is {files.num_products}, but {files.items} has {count} rows")
    finally:
        database.close()
    index.save(folder / INDEX)


def build_generated(num_products: int, goal_kind: str, *, seed: int = 0) -> Catalogue:
    """A catalogue of made-up products, in memory."""
    attributes = generated_attributes(num_products, seed=seed)
    is_human = goal_kind == "human"
    goals_of: _GoalsOf = human_goals if is_human else synthetic_goals
    instructions = generated_instructions(num_products, seed=seed) if is_human else attributes
    database = sqlite3.connect(":memory:", check_same_thread=False)
    rows = generated_items(num_products, seed=seed)
    index = write_catalogue(database, rows, attributes, instructions, goals_of, source="made-up products")
    return Catalogue(database, index)


def write_catalogue(
    database: sqlite3.Connection,
    rows: Iterable[Any],
    attributes: Mapping[str, Any],
    instructions: Mapping[str, Any],
    goals_of: _GoalsOf,
    *,
    source: str,
) -> SearchIndex:
    """Fills an empty database with products and shuffled goals; their search index.

    Args:
        database: Empty.
        rows: Of items_shuffle.json.
        attributes: The content of items_ins_v2.json.
        instructions: What `goals_of` reads, by asin.
        goals_of: `synthetic_goals` or `human_goals`.
        source: For messages.

    Raises:
        ValueError: There are fewer than two goals, one to train and one to validate with.
    """
    database.executescript(_TABLES)
    writing = _Writing(database)
    skipped, characters = writing.skipped, writing.characters
    texts = (searched_text(product) for product in writing.products(rows, attributes))
    index = SearchIndex.build(texts)

    known = {asin for (asin,) in database.execute("SELECT asin FROM products")}
    skipped["goals_of_unknown_products"] = sum(asin.upper() not in known for asin in instructions)
    goals: dict[Goal, None] = {}  # each once, or one would be trained and validated with
    by_asin = {asin.upper(): content for asin, content in instructions.items()}
    for asin, content in database.execute("SELECT asin, content FROM products ORDER BY number"):
        for goal in goals_of(Product.from_json(content), by_asin.get(asin, {}), skipped):
            skipped["repeated_goals"] += goal in goals
            goals[goal] = None
            characters.update(goal.instruction)
    counted = {name: count for name, count in sorted(skipped.items()) if count}
    left_out = {name: count for name, count in counted.items() if name != WITHOUT_PRICE}
    if len(goals) < 2:
        described = ", ".join(f"{count} {name}" for name, count in left_out.items()) or "nothing"
        raise ValueError(
            f"{source}: {len(known)} products have {len(goals)} goals; 2 at least are needed, one to train and one to "
            f"validate with. Left out were: {described}"
        )
    order = np.random.default_rng(DATA_SEED).permutation(len(goals))
    rows_of_goals = zip(map(int, order), (goal.to_json() for goal in goals), strict=True)
    database.executemany("INSERT INTO goals VALUES (?, ?)", rows_of_goals)
    facts = {
        "skipped": counted,
        "num_rows": writing.num_rows,
        "num_products": len(known),
        "num_goals": len(goals),
        "characters": "".join(sorted(characters)),
    }
    database.executemany("INSERT INTO facts VALUES (?, ?)", [(n, json.dumps(value)) for n, value in facts.items()])
    database.commit()
    if counted:
        first = f"; the first broken row: {writing.first_broken}" if writing.first_broken else ""
        priced = f"; {counted[WITHOUT_PRICE]} products without a price cost $100" if WITHOUT_PRICE in counted else ""
        logger.warning("%s: left out: %s%s%s", source, left_out or "nothing", first, priced)
    return index


class _Writing:
    """Products on their way into a database, with what is noticed about them."""

    def __init__(self, database: sqlite3.Connection):
        self._database = database
        self.skipped: Counter[str] = Counter()
        self.characters: set[str] = set()
        self.num_rows = 0
        self.first_broken = ""

    def products(self, rows: Iterable[Any], attributes: Mapping[str, Any]) -> Iterator[Product]:
        """Writes and yields every product that is one, under numbers from 0 on."""
        number = 0
        for row in rows:
            self.num_rows += 1
            asin = row.get("asin") if isinstance(row, Mapping) else None
            known = attributes.get(asin) if isinstance(asin, str) else None
            its_attributes = known.get("attributes") if isinstance(known, Mapping) else None
            try:
                product, has_price = product_of_row(row, its_attributes)
            except BrokenRowError as error:
                self.skipped["broken_rows"] += 1
                self.first_broken = self.first_broken or f"row {self.num_rows}: {error}"
                continue
            written = self._database.execute(
                "INSERT OR IGNORE INTO products VALUES (?, ?, ?)", (number, product.asin, product.to_json())
            )
            if not written.rowcount:
                self.skipped["repeated_products"] += 1
                continue
            self.skipped[WITHOUT_PRICE] += not has_price
            self.characters.update(product.asin, product.title, product.description, *product.features)
            self.characters.update(
                *product.options, *(value for values in product.options.values() for value in values)
            )
            number += 1
            yield product
