"""One Ray for all modules of this tier: starting it takes longer than most of them run."""

from __future__ import annotations

import pytest
import ray


@pytest.fixture(scope="module")
def ray_cluster() -> None:
    """A Ray of two CPUs, which stays for the modules that follow. RLlib would start one too, with what the machine has,
    and reads its runtime context even without actors."""
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, ignore_reinit_error=True)
