"""Settings that hold for every test, before anything imports Ray or torch."""

import os
from pathlib import Path

import pytest

# Ray would otherwise count calls home, and torch would start a thread per core in every worker of every test.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
os.environ.setdefault("OMP_NUM_THREADS", "1")
# And `ray.init` would join whatever cluster somebody has started on this machine.
os.environ.setdefault("RAY_ADDRESS", "local")

TIERS = ("unit", "integration", "system", "gpu")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `-m TIER`, the other tiers' modules are not even imported: they bring RLlib and torch, seconds."""
    asked = config.option.markexpr
    others = {tier for tier in TIERS if tier != asked} if asked in TIERS else set()
    return True if collection_path.name in others and collection_path.parent.name == "tests" else None
