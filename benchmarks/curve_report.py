"""The report of a suite: tables in Markdown, and a picture of the mean curves."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from curve_settings import Variant, variant_of
from curve_statistics import BASELINE, MEASURES, WINDOW, CurvesBySeed, Series, differences, read_series, spread
from matplotlib.axes import Axes
from matplotlib.figure import Figure

SERIES_COLUMNS = ("algorithm", "ratio, clip", "floor", "seeds")
OTHER_METRICS = (
    "zero_signal_share",
    "anchor_singleton_share",
    "invalid_action_share",
    "response_tokens_mean",
    "entropy",
    "kl_to_old",
    "clip_fraction",
    "gradient_norm",
)
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")  # told apart by the colour-blind
LINES = ("-", "--")  # the second once the colours are used up


def write_report(curves: Path, results: Path) -> tuple[Path, Path]:
    """Writes `<suite>_table.md` and `<suite>.png` into the folder `results` and returns their paths.

    Args:
        curves: The suite's CSV; machine.json may lie beside it.

    Raises:
        ValueError: The CSV holds no run, a run twice, or half a run.
    """
    series = read_series(curves)
    results.mkdir(parents=True, exist_ok=True)
    suite = curves.stem
    table, picture = results / f"{suite}_table.md", results / f"{suite}.png"
    table.write_text(_document(suite, series, curves.with_name("machine.json")), encoding="utf-8")
    # matplotlib would write its version into the file.
    _figure(suite, series).savefig(picture, dpi=120, metadata={"Software": None})
    return table, picture


def _document(suite: str, series: dict[Series, CurvesBySeed], machines: Path) -> str:
    iterations = len(next(iter(next(iter(series.values())).values())).success)
    parts = [
        f"# Learning curves: {suite}",
        f"Written by `python benchmarks/learning_curves.py report` from `benchmarks/curves/{suite}.csv`; edits are "
        f"lost. {iterations} iterations a run. [How to read this](../results.md).",
        f"![Mean success over seeds, by iteration]({suite}.png)",
        "## Success, mean ± standard deviation over seeds",
        _table((*SERIES_COLUMNS, "panel before", *MEASURES), (_mean_row(suite, *item) for item in series.items())),
        "## Success, seed by seed",
        _table(("algorithm", "ratio, clip", "floor", *MEASURES), (_seed_row(suite, *item) for item in series.items())),
        *_difference_section(suite, series),
        f"## Success in windows of {WINDOW} iterations, mean over seeds",
        _window_table(suite, series),
        "## Other metrics, mean over iterations and seeds",
        _table((*SERIES_COLUMNS, *OTHER_METRICS), (_metric_row(suite, *item) for item in series.items())),
    ]
    if machines.exists():
        parts += ["## Machine", *_machine_texts(json.loads(machines.read_text()))]
    return "\n\n".join(parts) + "\n"


def _mean_row(suite: str, name: Series, curves: CurvesBySeed) -> list[str]:
    before = spread(curve.panel_before for curve in curves.values())
    measures = (str(spread(map(measure, curves.values()))) for measure in MEASURES.values())
    return [*_series_cells(suite, name), str(len(curves)), str(before), *measures]


def _seed_row(suite: str, name: Series, curves: CurvesBySeed) -> list[str]:
    measures = (_by_seed({seed: measure(c) for seed, c in curves.items()}, ".3f") for measure in MEASURES.values())
    return [*_series_cells(suite, name), *measures]


def _difference_section(suite: str, series: dict[Series, CurvesBySeed]) -> list[str]:
    rows = []
    for name, curves in series.items():
        partner = name.baseline(suite)
        baseline = series.get(partner, {})
        if name == partner or not curves.keys() & baseline.keys():
            continue
        for measure_name, measure in MEASURES.items():
            by_seed = differences(curves, baseline, measure)
            difference = spread(by_seed.values())
            sign = "+" if difference.mean >= 0 else ""
            rows.append([*_series_cells(suite, name), measure_name, f"{sign}{difference}", _by_seed(by_seed, "+.3f")])
    if not rows:
        return []
    title = f"## Difference to {BASELINE} with the same seed, ratio, floor and, where it has it, setting"
    return [title, _table(("algorithm", "ratio, clip", "floor", "of", "difference", "seed by seed"), rows)]


def _window_table(suite: str, series: dict[Series, CurvesBySeed]) -> str:
    rows, windows = [], list(next(iter(next(iter(series.values())).values())).windows())
    for name, curves in series.items():
        means = (spread(curve.windows()[window] for curve in curves.values()).mean for window in windows)
        rows.append([*_series_cells(suite, name), str(len(curves)), *(f"{mean:.3f}" for mean in means)])
    return _table((*SERIES_COLUMNS, *windows), rows)


def _metric_row(suite: str, name: Series, curves: CurvesBySeed) -> list[str]:
    cells = []
    for metric in OTHER_METRICS:
        values = np.concatenate([curve.metrics[metric] for curve in curves.values()])
        values = values[~np.isnan(values)]
        cells.append(f"{values.mean():.3g}" if len(values) else "")
    return [*_series_cells(suite, name), str(len(curves)), *cells]


def _series_cells(suite: str, name: Series) -> list[str]:
    variant = variant_of(suite, *name)
    return [_label(name), f"{name.ratio}, {_clip_text(variant)}", f"{name.advantage_std_floor:g}"]


def _clip_text(variant: Variant) -> str:
    low, high = variant.clips
    return str(low) if low == high else f"{low}/{high}"


def _label(name: Series) -> str:
    return f"{name.algorithm} ({name.setting})" if name.setting else name.algorithm


def _by_seed(values: dict[int, float], number_format: str) -> str:
    return ", ".join(f"{seed}: {value:{number_format}}" for seed, value in values.items())


def _table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    names = list(columns)
    lines = [names, ["---"] * len(names), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _machine_texts(machines: list[dict[str, Any]]) -> list[str]:
    """A line for each machine with its versions, and the commits that ran there; "+" with uncommitted changes."""
    commits: dict[str, list[str]] = {}
    for machine in machines:
        rest = dict(machine)
        commit = str(rest.pop("commit"))[:12] + ("+" if rest.pop("uncommitted_changes") else "")
        text = ", ".join(f"{name.replace('_', ' ')}: {value}" for name, value in rest.items())
        commits.setdefault(text, []).append(commit)
    return [f"{text}; of all suites, commits {', '.join(each)}." for text, each in commits.items()]


def _figure(suite: str, series: dict[Series, CurvesBySeed]) -> Figure:
    """One facet per ratio (columns) and floor (rows): mean over seeds, and one sample standard deviation around it."""
    ratios = list(dict.fromkeys(name.ratio for name in series))
    floors = sorted({name.advantage_std_floor for name in series})
    styles = list(product(LINES, COLORS))
    style_of = {label: styles[i % len(styles)] for i, label in enumerate(dict.fromkeys(map(_label, series)))}
    figure = Figure(figsize=(5 * len(ratios), 3.6 * len(floors)), layout="constrained")
    facets = figure.subplots(len(floors), len(ratios), sharex=True, sharey=True, squeeze=False)
    for floor, row in zip(floors, facets, strict=True):
        for ratio, facet in zip(ratios, row, strict=True):
            facet.set_title(f"{ratio} ratio, floor {floor:g}", fontsize=10)
            for name, curves in series.items():
                if (name.ratio, name.advantage_std_floor) == (ratio, floor):
                    _draw(facet, _label(name), style_of[_label(name)], curves)
            if facet.lines:
                facet.legend(loc="lower right", fontsize=8)
    for facet in facets.flat:
        facet.set(ylim=(0, 1))
        facet.grid(alpha=0.3)
    figure.supxlabel("iteration")
    figure.supylabel("success of the training rollouts")
    figure.suptitle(f"{suite}\nmean over seeds, band of one standard deviation", fontsize=11)
    return figure


def _draw(facet: Axes, label: str, style: tuple[str, str], curves: CurvesBySeed) -> None:
    line, color = style
    success = np.stack([curve.success for curve in curves.values()])  # [seeds, iterations]
    mean, iterations = success.mean(axis=0), np.arange(1, success.shape[1] + 1)
    seeds = f"{len(curves)} seed{'s' * (len(curves) > 1)}"
    facet.plot(iterations, mean, color=color, linestyle=line, label=f"{label}, {seeds}")
    if len(curves) > 1:
        std = success.std(axis=0, ddof=1)
        facet.fill_between(iterations, mean - std, mean + std, color=color, alpha=0.2, linewidth=0)
