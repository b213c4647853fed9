"""Writes a small catalogue in the files of WebShop's public data.

    python -m rllib_gigpo.env_adapters.webshop.generate OUT --products N --seed S

writes items_shuffle.json, items_ins_v2.json and items_human_ins.json: N products, their synthetic goals, and goals in
other words for every second one. The same options write the same files.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from rllib_gigpo.env_adapters.webshop.data_files import ATTRIBUTES, DATA_VARIABLE, INSTRUCTIONS, ITEMS
from rllib_gigpo.env_adapters.webshop.generated_catalogue import (
    MOST_PRODUCTS,
    generated_attributes,
    generated_instructions,
    generated_items,
)


def write_files(out: Path, *, num_products: int, seed: int) -> None:
    """Writes the files into a folder, which is made where it is missing.

    Raises:
        FileExistsError: It holds one of the files already.
        ValueError: A number is not allowed.
    """
    if not 1 <= num_products <= MOST_PRODUCTS:
        raise ValueError(f"products is {num_products}; it must be from 1 to {MOST_PRODUCTS}")
    if seed < 0:
        raise ValueError(f"seed is {seed}; it must be at least 0")
    if there := [name for name in (ITEMS, ATTRIBUTES, INSTRUCTIONS) if (out / name).exists()]:
        raise FileExistsError(f"{out} holds {', '.join(there)} already; name another folder")
    out.mkdir(parents=True, exist_ok=True)
    _write_json(out / ITEMS, list(generated_items(num_products, seed=seed)))
    _write_json(out / ATTRIBUTES, generated_attributes(num_products, seed=seed))
    _write_json(out / INSTRUCTIONS, generated_instructions(num_products, seed=seed))


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {__spec__.name}", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, help=f"folder to write to; set {DATA_VARIABLE} to it afterwards")
    parser.add_argument("--products", type=int, default=1000, help="how many (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="another seed, other products (default %(default)s)")
    given = parser.parse_args(arguments)
    try:
        write_files(given.out, num_products=given.products, seed=given.seed)
    except (OSError, ValueError) as error:
        sys.exit(f"error: {error}")
    print(f"export {DATA_VARIABLE}={given.out.resolve()}")


if __name__ == "__main__":
    main()
