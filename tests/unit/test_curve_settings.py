"""The runs that the learning curves are made of."""

from __future__ import annotations

import importlib
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import typer

from rllib_gigpo.env_adapters.search_qa import TINY_OPTIONS
from rllib_gigpo.env_adapters.sokoban import EASY_LEVELS
from rllib_gigpo.registry import algorithm_class, algorithm_names

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
        planned = [run for run in settings.planned_runs(suite) if not run.setting]
        for algorithm in {run.algorithm for run in planned}:
            first, *others = (run.config().to_dict() for run in planned if run.algorithm == algorithm)
            for other in others:
                assert {key for key in first if str(first[key]) != str(other[key])} <= FACTORS


def test_algorithms_of_a_suite_share_what_is_not_theirs(settings: Any) -> None:
    """Equal models, tasks, batches and learning rates."""
    shared = ("lr", "group_size", "groups_per_iteration", "num_minibatches", "num_epochs", "adam_betas", "kl_coeff")
    for suite in settings.SUITES:
        configs = [run.config() for run in settings.planned_runs(suite) if run.seed == 0 and "lr=" not in run.setting]
        assert len({tuple(str(getattr(config, key)) for key in shared) for config in configs}) == 1


def test_another_learning_rate_is_given_to_the_baseline_too(settings: Any) -> None:
    runs = [run for run in settings.planned_runs("household") if "lr=" in run.setting]
    assert {run.algorithm for run in runs} == {"GRPO", "GiGPO"}
    assert len({str(run.config().lr) for run in runs}) == len({run.setting for run in runs}) == 1


def test_the_other_algorithms_have_the_ratio_and_clip_that_are_their_own(settings: Any) -> None:
    for variant in settings.OTHER_ALGORITHMS:
        own = algorithm_class(variant.algorithm).get_default_config()
        if variant.setting.get("dynamic_sampling"):
            own.clip_high = 0.28  # GiGPO_dynamic, as its paper has it
        assert (variant.ratio, *variant.clips) == (own.ratio, own.clip_low, own.clip_high), variant


def test_every_registered_algorithm_is_planned(settings: Any) -> None:
    for suite in ("ezpoints", "household_short"):
        assert {run.algorithm for run in settings.planned_runs(suite)} == set(algorithm_names())


def test_gagpos_lambda_is_swept(settings: Any) -> None:
    runs = [run for run in settings.planned_runs("ezpoints") if run.algorithm == "GAGPO" and run.seed == 0]
    assert sorted(run.config().lambda_ for run in runs) == [0.0, 0.5, 0.95, 1.0]


def test_a_stage_goes_seed_by_seed_and_the_floor_of_the_tuned_examples_comes_first(settings: Any) -> None:
    # So that runs to compare finish together, wherever it is stopped.
    runs = list(settings.planned_runs("ezpoints"))
    new_starts = [run for before, run in pairwise(runs) if run.seed < before.seed]
    assert len(new_starts) == len(settings.SUITES["ezpoints"].stages) - 1
    floors = [run.advantage_std_floor for run in runs if run.algorithm == "GRPO"]
    assert floors == sorted(floors, reverse=True)


def test_an_unknown_algorithm_is_an_error_that_lists_the_known_ones(settings: Any) -> None:
    learning_curves = importlib.import_module("learning_curves")
    assert learning_curves._known_algorithms(["PPO"]) == ["PPO"]
    assert learning_curves._known_algorithms(None) == sorted(algorithm_names())
    with pytest.raises(typer.BadParameter, match="unknown algorithm 'A2C'; known: DAPO, GAGPO, GRPO"):
        learning_curves._known_algorithms(["A2C"])


def test_two_agents_are_trained_with_one_module_and_with_one_each(settings: Any) -> None:
    runs = {run.setting: run.config() for run in settings.planned_runs("relay_household") if run.seed == 0}
    assert {setting: set(config.policies) for setting, config in runs.items()} == {
        "modules=shared": {"default_policy"},
        "modules=own": {"finder", "placer"},
    }


def test_sokobans_levels_and_searches_are_those_their_models_know(settings: Any) -> None:
    assert settings.SUITES["sokoban"].env_config == EASY_LEVELS
    assert settings.SUITES["search_qa"].env_config.items() >= TINY_OPTIONS.items()


def test_an_unknown_run_is_an_error(settings: Any) -> None:
    with pytest.raises(ValueError, match=r"no planned run is called 'chess/GRPO'; one is 'ezpoints/GRPO/token"):
        settings.planned_run("chess/GRPO")
