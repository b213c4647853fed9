"""The soak run of resuming, made short: killed with -9 at a random moment, with actors and through Tune."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rllib_gigpo.env_checks import Status

# Processes that import Ray and torch, several for each run: minutes on a busy machine.
pytestmark = [pytest.mark.system, pytest.mark.timeout(1200)]


@pytest.fixture
def soak_resume(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    return importlib.import_module("soak_resume")


def test_a_killed_run_goes_on_exactly_with_actors_and_through_tune(soak_resume: Any) -> None:
    results = soak_resume.resume(seeds=(3, 6))
    assert [result.name for result in results] == ["seed 3, runner and learner", "seed 6, Tune"]
    assert [result.status for result in results] == [Status.PASS, Status.PASS], results


def test_another_weight_or_name_is_found(soak_resume: Any) -> None:
    weights = {"a": np.zeros(3, np.float32)}
    assert soak_resume.difference(weights, {"a": np.array([0, 2e-6, 0], np.float32)}) > soak_resume.TOLERANCE
    assert soak_resume.difference(weights, {"b": weights["a"]}) == float("inf")
