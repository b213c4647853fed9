"""WebShop's public data: which of its files there are, and what they hold."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from rllib_gigpo.env_adapters.webshop.json_array import BrokenFileError, json_array

DATA_VARIABLE = "WEBSHOP_DATA"
ITEMS, SMALL_ITEMS = "items_shuffle.json", "items_shuffle_1000.json"
ATTRIBUTES, SMALL_ATTRIBUTES = "items_ins_v2.json", "items_ins_v2_1000.json"
INSTRUCTIONS = "items_human_ins.json"
SMALL = 1000  # products in the small files
LAYOUT = f"{ITEMS} with {ATTRIBUTES}, or {SMALL_ITEMS} with {SMALL_ATTRIBUTES}; and {INSTRUCTIONS} for human goals"


@dataclass(frozen=True)
class DataFiles:
    """The files of a catalogue.

    Attributes:
        items: Its products, items_shuffle.json.
        attributes: What they are known to be, and synthetic goals: items_ins_v2.json.
        instructions: Human goals, items_human_ins.json; None for synthetic ones.
        num_products: How many of the products, the first ones; None for all.
    """

    items: Path
    attributes: Path
    instructions: Path | None
    num_products: int | None

    def rows(self) -> Iterator[Any]:
        """The products' rows. Raises BrokenFileError."""
        return islice(json_array(self.items), self.num_products)

    def attributes_of_products(self) -> dict[str, Any]:
        """By asin. Raises BrokenFileError."""
        return _json_object(self.attributes)

    def instructions_of_products(self) -> dict[str, Any]:
        """By asin. Raises BrokenFileError."""
        return {} if self.instructions is None else _json_object(self.instructions)

    def state(self) -> tuple[Any, ...]:
        """Changes where a file does: names, sizes in bytes, and times in nanoseconds of the last change."""
        found = [path.stat() for path in self._paths()]
        return (self, *((stat.st_size, stat.st_mtime_ns) for stat in found))

    def content_hash(self) -> str:
        """A digest of everything that the catalogue is made of, wherever the files lie."""
        digest = hashlib.blake2b(f"{self.num_products} {self.instructions is None}".encode(), digest_size=16)
        for path in self._paths():
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "blake2b").digest())
        return digest.hexdigest()

    def _paths(self) -> list[Path]:
        return [path for path in (self.items, self.attributes, self.instructions) if path is not None]


def data_files(folder: Path, *, goal_kind: str, num_products: int | None) -> DataFiles:
    """The files in a folder of WebShop's public data: the small ones where they suffice.

    Raises:
        FileNotFoundError: There is no such folder, or a file is missing.
    """
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} is no folder; {_ask_for_data()}")
    is_small_enough = num_products is not None and num_products <= SMALL
    names = [(ITEMS, ATTRIBUTES), (SMALL_ITEMS, SMALL_ATTRIBUTES)]
    there = [pair for pair in (reversed(names) if is_small_enough else names) if (folder / pair[0]).is_file()]
    if not there:
        raise FileNotFoundError(f"{folder} holds neither {ITEMS} nor {SMALL_ITEMS}; {_ask_for_data()}")
    items, attributes = there[0]
    needed = [attributes, *([INSTRUCTIONS] if goal_kind == "human" else [])]
    if missing := [name for name in needed if not (folder / name).is_file()]:
        raise FileNotFoundError(f"{folder} holds {items}, but not {' and '.join(missing)}; {_ask_for_data()}")
    instructions = folder / INSTRUCTIONS if goal_kind == "human" else None
    return DataFiles(folder / items, folder / attributes, instructions, num_products)


def _ask_for_data() -> str:
    return (
        f"set {DATA_VARIABLE}, or env_config['data'], to a folder with {LAYOUT}. They come with WebShop's setup.sh; "
        "python -m rllib_gigpo.env_adapters.webshop.generate makes small ones"
    )


def _json_object(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BrokenFileError(f"{path}: {error}") from error
    if not isinstance(content, dict):
        raise BrokenFileError(f"{path}: it is a {type(content).__name__}; it must be an object by asin")
    return content
