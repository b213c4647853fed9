"""benchmarks/iteration.py: phases of an iteration."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest


def test_phases_sum_up_to_the_wall_time_and_what_processes_did_not_do_is_overhead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    iteration = importlib.import_module("iteration")
    result = {
        "timers": {
            "env_runner_sampling_timer": 5.0,
            "credit_assignment": 0.5,
            "learner_update_timer": 3.0,
            "synch_weights": 1.0,
        },
        "env_runners": {"sample": 4.75},
        "learners": {"__all_modules__": {"update_seconds": 2.875}},
    }
    phases = iteration.phases(10.0, result)
    assert sum(phases.values()) == 10.0
    assert {name: phases[name] for name in iteration.OVERHEAD} == {
        "sample, asking and answering": 0.25,
        "update, asking and answering": 0.125,
        "RLlib's results and checks": 0.5,
    }
