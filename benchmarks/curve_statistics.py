"""Numbers that say how a learning curve went, over seeds; and the difference to GRPO, seed by seed."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from curve_data import METRIC_PATHS, read_rows, run_of
from curve_settings import Run, planned_runs
from numpy.typing import NDArray

WINDOW = 5
BASELINE = "GRPO"


@dataclass(frozen=True)
class Curve:
    """One finished run of N training iterations.

    Attributes:
        metrics: float[N] by column of the CSV; NaN where the run has no such value.
        panel_before, panel_after: Success on the held-out panel before and after training.
    """

    run: Run
    metrics: dict[str, NDArray[np.float64]]
    panel_before: float
    panel_after: float

    @property
    def success(self) -> NDArray[np.float64]:
        """float[N]: share of the training trajectories that won."""
        return self.metrics["success_rate"]

    def area(self) -> float:
        """Area under the curve divided by its length: the mean success over all iterations."""
        return float(self.success.mean())

    def last(self) -> float:
        """Mean success over the last WINDOW iterations."""
        return float(self.success[-WINDOW:].mean())

    def windows(self) -> dict[str, float]:
        """Mean success of each WINDOW iterations, by "first–last"; the last window may be shorter."""
        starts = range(0, len(self.success), WINDOW)
        windows = {start: self.success[start : start + WINDOW] for start in starts}
        return {f"{start + 1}–{start + len(part)}": float(part.mean()) for start, part in windows.items()}


MEASURES: dict[str, Callable[[Curve], float]] = {
    "area under the curve": Curve.area,
    f"last {WINDOW} iterations": Curve.last,
    "panel after": lambda curve: curve.panel_after,
}


class Series(NamedTuple):
    """What runs that differ only in their seed have in common."""

    algorithm: str
    ratio: str
    advantage_std_floor: float
    setting: str

    def baseline(self, suite: str) -> Series:
        """The series to compare with: the baseline algorithm with the same ratio, floor and, where the suite plans
        that, setting."""
        alike = self._replace(algorithm=BASELINE)
        return alike if alike in map(_series_of, planned_runs(suite)) else alike._replace(setting="")


class Spread(NamedTuple):
    """Over seeds."""

    mean: float
    std: float | None  # with Bessel's correction; None for a single seed

    def __str__(self) -> str:
        return f"{self.mean:.3f}" + ("" if self.std is None else f" ± {self.std:.3f}")


CurvesBySeed = dict[int, Curve]


def spread(values: Iterable[float]) -> Spread:
    """Mean and sample standard deviation of at least one value."""
    numbers = list(values)
    return Spread(statistics.fmean(numbers), statistics.stdev(numbers) if len(numbers) > 1 else None)


def read_series(path: Path) -> dict[Series, CurvesBySeed]:
    """The finished runs of a suite, with the baseline before what is compared with it.

    Raises:
        ValueError: There is no run, an iteration of a run is there twice, or a run is not whole.
    """
    rows_of: dict[Run, list[dict[str, str]]] = defaultdict(list)
    for row in read_rows(path):
        rows_of[run_of(row)].append(row)
    if not rows_of:
        raise ValueError(f"{path} holds no run; `python benchmarks/learning_curves.py run` makes some")
    for run, rows in rows_of.items():
        _check_iterations(path, run, [int(row["iteration"]) for row in rows])
    _check_equal_lengths(path, {run: len(rows) - 1 for run, rows in rows_of.items()})
    series: dict[Series, CurvesBySeed] = defaultdict(dict)
    for run, rows in rows_of.items():
        series[_series_of(run)][run.seed] = _curve(path, run, rows)
    return {name: dict(sorted(series[name].items())) for name in sorted(series, key=_order)}


def differences(of: CurvesBySeed, baseline: CurvesBySeed, measure: Callable[[Curve], float]) -> dict[int, float]:
    """By seed, over the seeds that both have: what `of` has more. Equal seeds played equal tasks."""
    return {seed: measure(of[seed]) - measure(baseline[seed]) for seed in of if seed in baseline}


def _series_of(run: Run) -> Series:
    return Series(run.algorithm, run.ratio, run.advantage_std_floor, run.setting)


def _curve(path: Path, run: Run, rows: list[dict[str, str]]) -> Curve:
    before, after = rows[0]["panel_success_rate"], rows[-1]["panel_success_rate"]
    if not before or not after:
        raise ValueError(f"{path}: {run.id} has no panel_success_rate in its first or last row; {_REMEDY}")
    metrics = {column: np.array([float(row[column] or "nan") for row in rows[1:]]) for column in METRIC_PATHS}
    if np.isnan(metrics["success_rate"]).any():
        raise ValueError(f"{path}: {run.id} has an iteration without success_rate; {_REMEDY}")
    return Curve(run, metrics, float(before), float(after))


_REMEDY = "delete the rows of this run and run it again"


def _check_iterations(path: Path, run: Run, iterations: list[int]) -> None:
    if twice := sorted({i for i in iterations if iterations.count(i) > 1}):
        raise ValueError(f"{path}: {run.id} has iteration {twice[0]} more than once; {_REMEDY}")
    if iterations != list(range(len(iterations))) or len(iterations) < 2:
        raise ValueError(f"{path}: {run.id} has the iterations {iterations}, they must be 0, 1, 2, …; {_REMEDY}")


def _check_equal_lengths(path: Path, lengths: dict[Run, int]) -> None:
    longest = max(lengths.values())
    for run, length in lengths.items():
        if length < longest:
            raise ValueError(f"{path}: {run.id} ends after {length} iterations, others after {longest}; {_REMEDY}")


def _order(series: Series) -> tuple[object, ...]:
    is_baseline = series.algorithm == BASELINE
    return series.ratio != "token", series.advantage_std_floor, not is_baseline, series.algorithm, series.setting
