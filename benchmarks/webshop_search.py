"""WebShop's search index beside two others: the same made-up products and the same queries, in turns.

    python benchmarks/webshop_search.py                     100,000 products: about two minutes of CPU time
    pip install tantivy && python benchmarks/webshop_search.py

Prints for each engine the CPU seconds of building, the CPU milliseconds of a search for 50 products, by a few words and
by a whole instruction, each as a ratio to ours, and how many of its first ten products are among ours. Engines that are
not installed are left out.
"""

from __future__ import annotations

import argparse
import re
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from machine import this_machine

from rllib_gigpo.env_adapters.webshop.generated_catalogue import generated_attributes, generated_items
from rllib_gigpo.env_adapters.webshop.products import product_of_row
from rllib_gigpo.env_adapters.webshop.search_index import SearchIndex, searched_text
from rllib_gigpo.env_adapters.webshop.shop import MOST_HITS

OURS = "bm25s, ours"


class Engine(Protocol):
    """Finds rows of texts by words."""

    def search(self, words: str, *, limit: int) -> list[int]:
        """Numbers of rows, best first."""


def ours(texts: Sequence[str], folder: Path) -> Engine:
    """WebShop's own, written to the disk and mapped from there."""
    SearchIndex.build(texts).save(folder / "bm25s")
    return SearchIndex.load(folder / "bm25s")


class FTS5:
    """SQLite's full-text search, with its stemmer and its BM25."""

    def __init__(self, texts: Sequence[str], folder: Path):
        self._database = sqlite3.connect(folder / "fts5.sqlite")
        self._database.execute("CREATE VIRTUAL TABLE texts USING fts5(text, content='', tokenize='porter unicode61')")
        self._database.executemany("INSERT INTO texts (rowid, text) VALUES (?, ?)", enumerate(texts))
        self._database.commit()

    def search(self, words: str, *, limit: int) -> list[int]:
        any_of = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", words.lower()))
        found = self._database.execute(
            "SELECT rowid FROM texts WHERE texts MATCH ? ORDER BY rank LIMIT ?", (any_of, limit)
        )
        return [row for (row,) in found]


class Tantivy:
    """Lucene's relative in Rust, with English stems."""

    def __init__(self, texts: Sequence[str], folder: Path):
        import tantivy

        builder = tantivy.SchemaBuilder()
        builder.add_text_field("text", stored=False, tokenizer_name="en_stem")
        builder.add_integer_field("row", stored=True, fast=True)
        (folder / "tantivy").mkdir()
        self._index = tantivy.Index(builder.build(), path=str(folder / "tantivy"))
        writer = self._index.writer(num_threads=1)
        for row, text in enumerate(texts):
            writer.add_document(tantivy.Document(text=text, row=row))
        writer.commit()
        writer.wait_merging_threads()
        self._index.reload()
        self._searcher = self._index.searcher()

    def search(self, words: str, *, limit: int) -> list[int]:
        query = self._index.parse_query(" ".join(re.findall(r"\w+", words.lower())), ["text"])
        hits = self._searcher.search(query, limit).hits
        return [self._searcher.doc(address)["row"][0] for _, address in hits]


ENGINES: dict[str, Callable[[Sequence[str], Path], Engine]] = {
    OURS: ours,
    "SQLite FTS5": FTS5,
    **({"tantivy": Tantivy} if find_spec("tantivy") else {}),
}


class Measured:
    """What was measured of an engine: CPU seconds of building, CPU milliseconds of searches, and what they found."""

    def __init__(self) -> None:
        self.build_s = 0.0
        self.search_ms: dict[str, list[float]] = {}
        self.found: dict[str, list[list[int]]] = {}


def measure(num_products: int, num_queries: int) -> dict[str, Measured]:
    """Builds all engines and asks each of them every query."""
    texts = [searched_text(product_of_row(row, None)[0]) for row in generated_items(num_products)]
    instructions = [content["instruction"] for content in generated_attributes(num_queries * 7).values()][::7]
    queries = {
        "few words": [" ".join(instruction.split()[2:6]) for instruction in instructions],
        "instruction": [
            f"{text} with color: red, and size: large, and price lower than 40.00 dollars" for text in instructions
        ],
    }
    measured = {name: Measured() for name in ENGINES}
    with tempfile.TemporaryDirectory() as folder:
        engines = {}
        for name, build in ENGINES.items():
            began = time.process_time()
            engines[name] = build(texts, Path(folder))
            measured[name].build_s = time.process_time() - began
        for kind, of_kind in queries.items():
            for engine in engines.values():
                engine.search(of_kind[0], limit=MOST_HITS)  # warms up
            for query in of_kind:
                for name, engine in engines.items():
                    began = time.process_time()
                    rows = engine.search(query, limit=MOST_HITS)
                    milliseconds = 1000 * (time.process_time() - began)
                    measured[name].search_ms.setdefault(kind, []).append(milliseconds)
                    measured[name].found.setdefault(kind, []).append(rows)
    return measured


def shared_of_ten(found: list[list[int]], of_ours: list[list[int]]) -> float:
    """Mean number of the first ten products that are among ours."""
    return statistics.mean(len(set(a[:10]) & set(b[:10])) for a, b in zip(found, of_ours, strict=True))


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--products", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=25, help="of each kind (default %(default)s)")
    arguments = parser.parse_args()
    measured = measure(arguments.products, arguments.queries)
    our_own: Any = measured[OURS]
    kinds = list(our_own.search_ms)
    print(f"{arguments.products:,} products, medians of {arguments.queries} queries a kind, CPU time")
    print(
        f"{'':14}{'build s':>9}" + "".join(f"{kind + ' ms':>18}{'ratio':>8}{'max ms':>9}{'of 10':>7}" for kind in kinds)
    )
    for name, of_engine in measured.items():
        line = f"{name:14}{of_engine.build_s:9.1f}"
        for kind in kinds:
            times = of_engine.search_ms[kind]
            ratio = statistics.median(times) / statistics.median(our_own.search_ms[kind])
            shared = shared_of_ten(of_engine.found[kind], our_own.found[kind])
            line += f"{statistics.median(times):18.2f}{ratio:8.2f}{max(times):9.2f}{shared:7.1f}"
        print(line)
    print(", ".join(f"{key.replace('_', ' ')}: {value}" for key, value in this_machine(("bm25s", "numpy")).items()))


if __name__ == "__main__":
    main()
