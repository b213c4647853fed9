"""One Ray for all modules of this tier: starting it takes longer than most of them run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import ray


@pytest.fixture(scope="package")
def ray_cluster() -> Iterator[None]:
    """A Ray of two CPUs. RLlib would start one too, with what the machine has, and reads its runtime context even
    without actors."""
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, ignore_reinit_error=True)
    yield
    ray.shutdown()
