"""A Ray of its own for every module: each needs other processes, nodes and faults."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import ray


@pytest.fixture(scope="module", autouse=True)
def _no_ray_left_running() -> Iterator[None]:
    """Building an algorithm starts Ray where there is none; each module must be able to start its own."""
    ray.shutdown()
    yield
    ray.shutdown()
