"""Cost of images as anchor states: 1,920 of 160 × 160 × 3, in 16 rollout groups, against other keys of a dictionary.

    python benchmarks/images.py

Prints, for each way of grouping, seconds of processor time (the best of three), the peak of the memory that it takes
beside the images, in MB, and the ratios to ours. The published GiGPO code makes a tuple of a picture's numbers, as
NumPy gives them; that is measured on a few images and multiplied, as all would take gigabytes.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np

from rllib_gigpo.connectors.anchor_states import anchor_state_ids

IMAGES, SHAPE, STATES, GROUPS = 1_920, (160, 160, 3), 400, 16
FEW_IMAGES = 24
NOISE, TOLERANCE = 4, 4.0
REPEATS = 3


def make_images() -> tuple[np.ndarray, np.ndarray]:
    """uint8[IMAGES, *SHAPE] with repeats, of flat tiles as in a drawn game, and the rollout group of each."""
    rng = np.random.default_rng(2)
    tiles = rng.integers(0, 256, (STATES, 10, 10, 3), dtype=np.uint8)
    states = tiles.repeat(SHAPE[0] // 10, axis=1).repeat(SHAPE[1] // 10, axis=2)
    return states[rng.integers(0, STATES, IMAGES)], np.arange(IMAGES) // (IMAGES // GROUPS)


def with_noise(images: np.ndarray) -> np.ndarray:
    """Every picture with noise of its own."""
    rng = np.random.default_rng(3)
    noisy = np.empty_like(images)
    for index, image in enumerate(images):
        noise = rng.integers(-NOISE, NOISE + 1, image.shape, dtype=np.int16)
        noisy[index] = np.clip(image + noise, 0, 255)
    return noisy


def ids_by(key: Callable[[np.ndarray], Any], images: Iterable[np.ndarray], group_ids: np.ndarray) -> list[int]:
    """Numbers the distinct pairs of group and key by first appearance."""
    seen: dict[tuple[int, Any], int] = {}
    pairs = ((group, key(image)) for group, image in zip(group_ids.tolist(), images, strict=True))
    return [seen.setdefault(pair, len(seen)) for pair in pairs]


def measured(function: Callable[..., Any], repeats: int = REPEATS) -> tuple[float, float, Any]:
    """(seconds, peak memory in MB, result); memory is traced in a call of its own, as that slows it down."""
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        result = function()
        seconds.append(time.process_time() - start)
    tracemalloc.start()
    function()
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    return min(seconds), peak, result


def main() -> None:
    images, group_ids = make_images()
    ours_seconds, ours_peak, ids = measured(partial(anchor_state_ids, images, group_ids))
    print(f"{'key':<42}{'seconds':>10}{'ratio':>8}{'peak MB':>10}{'ratio':>8}")

    def report(name: str, seconds: float, peak: float) -> None:
        ratios = seconds / ours_seconds, peak / ours_peak
        print(f"{name:<42}{seconds:>10.4f}{ratios[0]:>8.1f}{peak:>10.2f}{ratios[1]:>8.1f}", flush=True)

    report("ours: content hash", ours_seconds, ours_peak)
    for name, key in (
        ("bytes", lambda image: image.tobytes()),
        ("tuple of ints", lambda image: (*image.ravel().tolist(),)),
    ):
        seconds, peak, found = measured(partial(ids_by, key, images, group_ids))
        assert found == ids.tolist()
        report(name, seconds, peak)
    few = slice(0, FEW_IMAGES)
    seconds, peak, found = measured(partial(ids_by, lambda image: tuple(image.flatten()), images[few], group_ids[few]))
    assert found == ids[few].tolist()
    report("tuple of NumPy's numbers, as published", seconds * IMAGES / FEW_IMAGES, peak * IMAGES / FEW_IMAGES)
    noisy = with_noise(images)
    seconds, peak, found = measured(partial(anchor_state_ids, noisy, group_ids, image_tolerance=TOLERANCE))
    assert found.tolist() == ids.tolist()
    report(f"ours, ±{NOISE} levels of noise, tolerance {TOLERANCE:.0f}", seconds, peak)


if __name__ == "__main__":
    main()
