"""The soak run of resuming, made short: killed with -9 at a random moment, with actors and through Tune."""

from __future__ import annotations

import importlib
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ray.exceptions import RayTaskError

from rllib_gigpo.env_checks import Status
from rllib_gigpo.env_checks.check_result import passed

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


def test_a_seed_that_fails_says_why_and_leaves_the_others(soak_resume: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(address: str, folder: Path, seed: int, way: str) -> None:
        if seed == 1:
            raise RayTaskError("restore", "Traceback\nValueError: a removed checkpoint", ValueError())

    monkeypatch.setattr(soak_resume, "a_cluster", lambda: nullcontext("nowhere"))
    monkeypatch.setattr(soak_resume, "kill_at_random", fail)
    monkeypatch.setattr(soak_resume, "resumed", lambda folder, seed, way: passed(f"seed {seed}", ""))
    first, second = soak_resume.resume(seeds=(1, 2))
    assert (first.name, first.status) == ("seed 1, Tune", Status.FAIL)
    assert first.seen == "RayTaskError: ValueError: a removed checkpoint"
    assert second.status == Status.PASS


def test_another_weight_or_name_is_found(soak_resume: Any) -> None:
    weights = {"a": np.zeros(3, np.float32)}
    assert soak_resume.difference(weights, {"a": np.array([0, 2e-6, 0], np.float32)}) > soak_resume.TOLERANCE
    assert soak_resume.difference(weights, {"b": weights["a"]}) == float("inf")
