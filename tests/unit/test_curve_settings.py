"""The runs that the learning curves are made of."""

from __future__ import annotations

import importlib
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.unit

FACTORS = {"ratio", "clip_low", "clip_high", "advantage_std_floor", "seed"}


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    return importlib.import_module("curve_settings")


def test_every_algorithm_accepts_the_settings_it_is_run_with(settings: Any) -> None:
    for suite in settings.SUITES:
        for run in settings.planned_runs(suite):
            if run.seed == settings.SEEDS[0]:
                run.config().validate()


def test_runs_of_a_suite_and_an_algorithm_differ_in_the_factors_only(settings: Any) -> None:
    for suite in settings.SUITES:
        for algorithm in settings.ALGORITHMS:
            runs = [run for run in settings.planned_runs(suite) if run.algorithm == algorithm and not run.setting]
            first, *others = (run.config().to_dict() for run in runs)
            for other in others:
                assert {key for key in first if str(first[key]) != str(other[key])} <= FACTORS


def test_a_stage_goes_seed_by_seed_and_the_floor_of_the_tuned_examples_comes_first(settings: Any) -> None:
    # So that runs to compare finish together, wherever it is stopped.
    runs = list(settings.planned_runs("household"))
    new_starts = [run for before, run in pairwise(runs) if run.seed < before.seed]
    assert len(new_starts) == len(settings.STAGES) - 1
    assert [run.advantage_std_floor for run in runs] == sorted((r.advantage_std_floor for r in runs), reverse=True)


def test_an_unknown_run_is_an_error(settings: Any) -> None:
    with pytest.raises(ValueError, match=r"no planned run is called 'chess/GRPO'; one is 'ezpoints/GRPO/token"):
        settings.planned_run("chess/GRPO")
