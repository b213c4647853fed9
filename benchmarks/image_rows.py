"""Memory of an iteration's rows with images: handles of images that are stored once, against a copy in every row.

    python benchmarks/image_rows.py [ROWS]

Prints the peak of what Python and numpy allocate while the rows are made (tracemalloc), and their size when pickled, as
they are for a learner. The rows are those of 16 rollout groups with 60 distinct images of 160×160×3 each. Patches per
row, what a processor makes of an image, are counted from one row: 6,400 of them need gigabytes.
"""

from __future__ import annotations

import pickle
import sys
import tempfile
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
from transformers import Qwen2VLImageProcessorPil

from rllib_gigpo.images import ImageStore
from rllib_gigpo.rows import TokenRows
from rllib_gigpo.vlm.image_processing import ImageProcessor

GROUPS, DISTINCT, SHAPE = 16, 60, (160, 160, 3)


def drawn(group: int, state: int) -> np.ndarray:
    """What the environment of a group draws in a state: uint8[160, 160, 3], a new array each time."""
    return np.random.default_rng([group, state]).integers(0, 256, SHAPE, dtype=np.uint8)


def states_of(rows: int) -> list[tuple[int, int]]:
    """Group and state of each row."""
    states = np.random.default_rng(0).integers(0, DISTINCT, rows)
    return [(row * GROUPS // rows, int(state)) for row, state in enumerate(states)]


def rows_with_handles(rows: int) -> TokenRows:
    """Token rows of `rows` steps, 40 tokens each, as an iteration makes them."""
    stores = [ImageStore() for _ in range(GROUPS)]
    images = [(stores[group].add(drawn(group, state)),) for group, state in states_of(rows)]
    prompts = [np.zeros(36, np.int32)] * rows
    responses = [np.zeros(4, np.int32)] * rows
    return TokenRows.from_lists(prompts, responses, [np.zeros(4, np.float32)] * rows, images=images)


def rows_with_copies(rows: int) -> list[np.ndarray]:
    """The images of the same steps, each row with its own."""
    return [drawn(group, state) for group, state in states_of(rows)]


def peak(make: Callable[[int], Any], rows: int) -> tuple[float, float]:
    """Megabytes allocated at most while `make` runs, and megabytes of what it returns, pickled."""
    tracemalloc.start()
    made = make(rows)
    megabytes = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    return megabytes, len(pickle.dumps(made, protocol=5)) / 2**20


def patch_megabytes(rows: int) -> float:
    """Megabytes of the patches of `rows` images."""
    with tempfile.TemporaryDirectory() as directory:
        Qwen2VLImageProcessorPil().save_pretrained(directory)
        return ImageProcessor(directory).process(drawn(0, 0)).pixel_values.nbytes * rows / 2**20


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 6_400
    print(f"{rows} rows, {GROUPS} groups with {DISTINCT} distinct images of {SHAPE} each")
    for name, make in (("handles", rows_with_handles), ("a copy per row", rows_with_copies)):
        megabytes, pickled = peak(make, rows)
        print(f"{name:16} peak {megabytes:7.0f} MB, pickled {pickled:7.0f} MB")
    print(f"{'patches per row':16} {patch_megabytes(rows):12.0f} MB")


if __name__ == "__main__":
    main()
