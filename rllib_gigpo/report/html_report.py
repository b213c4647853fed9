"""One HTML file that needs no network: curves, time, configuration, and the inspector of recorded trajectories."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader
from plotly.offline import get_plotlyjs

from rllib_gigpo.report.curves import figures
from rllib_gigpo.report.run_data import RunData

_PANEL = "success on the panel"
_HEADLINES = {
    "success": "env_runners/success_rate",
    _PANEL: "evaluation/env_runners/success_rate",
    "return": "env_runners/episode_return_mean",
    "episode length": "env_runners/episode_len_mean",
    "invalid actions": "env_runners/invalid_action_share",
    "groups without a signal": "rollout_groups/zero_signal_share",
    "rows alone in their step group": "rollout_groups/anchor_singleton_share",
}
_IMAGE_BYTES = 24 * 2**20  # of all pictures in a page


def write_report(runs: Sequence[RunData], out: Path) -> None:
    """Writes the report of a run, or of several side by side, to the file `out`.

    Trajectories are packed into the page compressed, and unpacked by the browser when they are looked at. Of the
    pictures the newest are in the page, `_IMAGE_BYTES` at most.
    """
    by_label = dict(zip(_labels(runs), runs, strict=True))
    page = Environment(loader=PackageLoader(__name__.rpartition(".")[0], "page"), autoescape=True)
    page.filters["script_json"] = _script_json
    panels = [
        {"id": f"figure-{index}", "note": panel.note, "figure": figure}
        for index, (panel, figure) in enumerate(figures(by_label))
    ]
    html = page.get_template("report.html.j2").render(
        title=" and ".join(map(_title, runs)) if len(runs) == 1 else f"{len(runs)} runs side by side",
        runs=[
            {
                "label": label,
                "title": _title(run),
                "folder": str(run.folder.absolute()),
                "num_iterations": len(run.iterations),
                "headlines": _headlines(run),
                "trajectories": {i: _base64(path) for i, path in run.trajectories.items()},
                "params": json.dumps(run.params, indent=2, default=str, sort_keys=True),
            }
            for label, run in by_label.items()
        ],
        differences=_differences(runs),
        panels=panels,
        images={key: _base64(path) for key, path in _newest(path for run in runs for path in run.images.values())},
        plotly=get_plotlyjs(),
    )
    out.write_text(html, encoding="utf-8")


def run_summary(run: RunData) -> dict[str, Any]:
    """The run's folder, its last iteration, and the last values of the metrics that a reader asks for first."""
    last = {name: values[max(values)] for name in _HEADLINES.values() if (values := run.metrics.get(name))}
    return {"folder": str(run.folder.absolute()), "iteration": run.iterations[-1], "metrics": last}


def _title(run: RunData) -> str:
    return f"{run.summary.get('algorithm') or run.folder.name}: {run.params.get('env', '')}".rstrip(": ")


def _labels(runs: Sequence[RunData]) -> list[str]:
    """A name for each run: of its folder, or its whole path where names are not distinct."""
    names = [run.folder.absolute().name for run in runs]
    return names if len(set(names)) == len(names) else [str(run.folder.absolute()) for run in runs]


def _headlines(run: RunData) -> list[dict[str, Any]]:
    """First and last value of the metrics that a reader asks for first; of the panel, before and after training where
    the run has ended."""
    before, after = (run.summary.get(key) for key in ("success_before", "success_after"))
    headlines = []
    for label, name in _HEADLINES.items():
        if label == _PANEL and before is not None and after is not None:
            headlines.append({"label": label, "first": before, "last": after})
        elif values := run.metrics.get(name):
            headlines.append({"label": label, "first": values[min(values)], "last": values[max(values)]})
    return headlines


def _differences(runs: Sequence[RunData]) -> list[tuple[str, list[str]]]:
    """(key, its value in each run) of the configuration, where values differ."""
    keys = sorted({key for run in runs for key in run.params})
    rows = [(key, [json.dumps(run.params.get(key), default=str) for run in runs]) for key in keys]
    return [(key, values) for key, values in rows if len(set(values)) > 1]


def _newest(paths: Iterable[Path]) -> list[tuple[str, Path]]:
    """(key, file) of the pictures that go into the page."""
    chosen, left = [], _IMAGE_BYTES
    for path in sorted(paths, key=lambda path: path.stat().st_mtime_ns, reverse=True):
        left -= path.stat().st_size
        if left < 0:
            break
        chosen.append((path.stem, path))
    return chosen


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def _script_json(value: Any) -> str:
    """JSON that cannot end the script element that it stands in."""
    return json.dumps(value).replace("<", "\\u003c")
