"""The report of the learning curves, on curves whose numbers are worked out by hand."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.unit

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

# Success by iteration, 6 iterations: the last 5 leave out the first.
GRPO_SEEDS = ([0.0, 0.1, 0.2, 0.3, 0.4, 0.5], [0.2, 0.3, 0.4, 0.5, 0.6, 0.7])
GIGPO_SEEDS = ([0.1, 0.2, 0.4, 0.6, 0.8, 0.9], [0.2, 0.3, 0.4, 0.5, 0.6, 0.4])


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Imports a file of benchmarks/ by name: the folder is no package, its files import each other as scripts do."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module


def rows_of_run(run: Any, success: list[float], panel: tuple[float, float] = (0.1, 0.9)) -> list[dict[str, Any]]:
    """What a finished run writes, with nothing but success in it."""
    names = ("suite", "algorithm", "ratio", "advantage_std_floor", "seed", "setting")
    shared = {name: getattr(run, name) for name in names} | {"environment": "EZPoints"}
    rows = [{**shared, "iteration": i + 1, "success_rate": rate, "seconds": 1.5} for i, rate in enumerate(success)]
    rows[-1]["panel_success_rate"] = panel[1]
    return [{**shared, "iteration": 0, "panel_success_rate": panel[0]}, *rows]


@pytest.fixture
def curves(tmp_path: Path, modules: Any) -> Path:
    """GRPO and GiGPO, two seeds each; GiGPO's come first and in reverse."""
    data, settings = modules("curve_data"), modules("curve_settings")
    path = tmp_path / "ezpoints.csv"
    for algorithm, seeds in (("GiGPO", GIGPO_SEEDS), ("GRPO", GRPO_SEEDS)):
        for seed, success in reversed(list(enumerate(seeds))):
            run = settings.Run("ezpoints", algorithm, "token", 1.0, seed)
            data.add_run(path, rows_of_run(run, success, panel=(0.1, 0.5 + 0.2 * seed)))
    return path


def two_series(statistics: ModuleType, path: Path) -> tuple[Any, Any]:
    series = statistics.read_series(path)
    assert [name.algorithm for name in series] == ["GRPO", "GiGPO"]
    grpo, gigpo = series.values()
    assert list(grpo) == list(gigpo) == [0, 1]
    return grpo, gigpo


def test_area_last_iterations_and_windows_of_a_curve(curves: Path, modules: Any) -> None:
    grpo, gigpo = two_series(modules("curve_statistics"), curves)
    assert grpo[0].area() == pytest.approx(1.5 / 6)
    assert grpo[0].last() == pytest.approx(1.5 / 5)
    assert gigpo[0].area() == pytest.approx(3.0 / 6)
    assert gigpo[0].last() == pytest.approx(2.9 / 5)
    assert gigpo[0].windows() == pytest.approx({"1–5": 2.1 / 5, "6–6": 0.9})
    assert (gigpo[1].panel_before, gigpo[1].panel_after) == (0.1, 0.7)


def test_spread_is_the_sample_standard_deviation(curves: Path, modules: Any) -> None:
    statistics = modules("curve_statistics")
    grpo, _ = two_series(statistics, curves)
    found = statistics.spread(curve.area() for curve in grpo.values())
    assert found.mean == pytest.approx((0.25 + 0.45) / 2)
    assert found.std == pytest.approx(0.2 / 2**0.5)  # two values that are 0.2 apart, divided by n - 1 = 1
    assert statistics.spread([0.25]) == (0.25, None)
    assert str(statistics.spread([0.25])) == "0.250"


def test_differences_are_paired_by_seed(curves: Path, modules: Any) -> None:
    statistics = modules("curve_statistics")
    grpo, gigpo = two_series(statistics, curves)
    # Means 0.5 and 0.4 against 0.25 and 0.45.
    assert statistics.differences(gigpo, grpo, statistics.Curve.area) == pytest.approx({0: 0.25, 1: -0.05})
    del grpo[0]
    assert statistics.differences(gigpo, grpo, statistics.Curve.area) == pytest.approx({1: -0.05})


def test_the_report_shows_these_numbers(curves: Path, tmp_path: Path, modules: Any) -> None:
    table, picture = modules("curve_report").write_report(curves, tmp_path / "results")
    text = table.read_text(encoding="utf-8")
    assert "| GRPO | token, 0.2 | 1 | 2 | 0.100 ± 0.000 | 0.350 ± 0.141 | 0.400 ± 0.141 | 0.600 ± 0.141 |" in text
    assert "| GiGPO | token, 0.2 | 1 | 0: 0.500, 1: 0.400 | 0: 0.580, 1: 0.440 | 0: 0.500, 1: 0.700 |" in text
    assert "| area under the curve | +0.100 ± 0.212 | 0: +0.250, 1: -0.050 |" in text
    assert "| GiGPO | token, 0.2 | 1 | 2 | 0.410 | 0.650 |" in text
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_picture_draws_mean_and_spread(curves: Path, modules: Any) -> None:
    series = modules("curve_statistics").read_series(curves)
    (facet,) = modules("curve_report")._figure("ezpoints", series).axes
    line = facet.lines[0]
    np.testing.assert_allclose(line.get_xdata(), [1, 2, 3, 4, 5, 6])
    np.testing.assert_allclose(line.get_ydata(), [0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    band = facet.collections[0].get_paths()[0].vertices
    std = 0.2 / 2**0.5  # GRPO's seeds are 0.2 apart in every iteration
    assert band[:, 1].min() == pytest.approx(0.1 - std)
    assert band[:, 1].max() == pytest.approx(0.6 + std)


def test_a_run_that_is_there_twice_is_an_error(curves: Path, modules: Any) -> None:
    lines = curves.read_text().splitlines(keepends=True)
    curves.write_text("".join([*lines, lines[3]]))
    with pytest.raises(ValueError, match=r"ezpoints/GiGPO/token/floor=1\.0/seed=1 has iteration 2 more than once"):
        modules("curve_statistics").read_series(curves)


@pytest.mark.parametrize(
    ("left_out", "message"),
    [
        (slice(-1, None), "seed=0 ends after 5 iterations, others after 6"),
        (slice(-3, -2), r"seed=0 has the iterations \[0, 1, 2, 3, 5, 6\]"),
        (slice(-6, None), r"seed=0 has the iterations \[0\]"),
    ],
)
def test_half_a_run_is_an_error(curves: Path, modules: Any, left_out: slice, message: str) -> None:
    lines = curves.read_text().splitlines(keepends=True)
    del lines[left_out]
    curves.write_text("".join(lines))
    with pytest.raises(ValueError, match=message):
        modules("curve_statistics").read_series(curves)


def test_a_run_whose_last_panel_is_missing_is_an_error(tmp_path: Path, modules: Any) -> None:
    data, settings = modules("curve_data"), modules("curve_settings")
    rows = rows_of_run(settings.Run("ezpoints", "GRPO", "token", 1.0, 0), [0.1, 0.2, 0.3])
    data.add_run(tmp_path / "ezpoints.csv", rows[:-1])
    with pytest.raises(ValueError, match="seed=0 has no panel_success_rate in its first or last row; delete"):
        modules("curve_statistics").read_series(tmp_path / "ezpoints.csv")


def test_other_columns_and_no_runs_are_errors(tmp_path: Path, modules: Any) -> None:
    statistics, path = modules("curve_statistics"), tmp_path / "ezpoints.csv"
    with pytest.raises(ValueError, match="holds no run"):
        statistics.read_series(path)
    path.write_text("suite,seed\nezpoints,0\n")
    with pytest.raises(ValueError, match=r"the columns are \['suite', 'seed'\], they must be"):
        statistics.read_series(path)


def test_a_finished_run_is_found_again_and_a_planned_one_has_an_id_of_its_own(tmp_path: Path, modules: Any) -> None:
    data, settings = modules("curve_data"), modules("curve_settings")
    planned = [run for suite in settings.SUITES for run in settings.planned_runs(suite)]
    assert len({run.id for run in planned}) == len(set(planned)) == len(planned)
    for run in planned[:3]:
        data.add_run(tmp_path / "ezpoints.csv", rows_of_run(run, [0.5]))
        assert settings.planned_run(run.id) == run
    rows = data.read_rows(tmp_path / "ezpoints.csv")
    assert {data.run_of(row) for row in rows} == set(planned[:3])
    assert not list(tmp_path.glob("*.part"))
