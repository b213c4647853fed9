"""One HTML file that needs no network: curves, time, configuration, and the inspector of recorded trajectories."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader
from plotly.offline import get_plotlyjs

from rllib_gigpo.report.curves import figures
from rllib_gigpo.report.run_data import RunData

_HEADLINES = {
    "success": "env_runners/success_rate",
    "success on the panel": "evaluation/env_runners/success_rate",
    "return": "env_runners/episode_return_mean",
    "episode length": "env_runners/episode_len_mean",
    "invalid actions": "env_runners/invalid_action_share",
    "groups without a signal": "rollout_groups/zero_signal_share",
    "rows alone in their step group": "rollout_groups/anchor_singleton_share",
}


def write_report(run: RunData, out: Path) -> None:
    """Writes the report of a run to the file `out`.

    Trajectories are packed into the page compressed, and unpacked by the browser when they are looked at.
    """
    page = Environment(loader=PackageLoader(__name__.rpartition(".")[0], "page"), autoescape=True)
    page.filters["script_json"] = _script_json
    panels = [
        {"id": f"figure-{index}", "note": panel.note, "figure": figure}
        for index, (panel, figure) in enumerate(figures(run))
    ]
    html = page.get_template("report.html.j2").render(
        title=f"{run.params.get('algo_class_name') or run.folder.name}: {run.params.get('env', '')}".rstrip(": "),
        folder=str(run.folder.absolute()),
        num_iterations=len(run.iterations),
        headlines=_headlines(run),
        panels=panels,
        trajectories={i: base64.b64encode(path.read_bytes()).decode() for i, path in run.trajectories.items()},
        params=json.dumps(run.params, indent=2, default=str, sort_keys=True),
        plotly=get_plotlyjs(),
    )
    out.write_text(html, encoding="utf-8")


def _headlines(run: RunData) -> list[dict[str, Any]]:
    """First and last value of the metrics that a reader asks for first."""
    found: list[tuple[str, Mapping[int, float]]] = [
        (label, run.metrics[name]) for label, name in _HEADLINES.items() if name in run.metrics
    ]
    return [{"label": label, "first": values[min(values)], "last": values[max(values)]} for label, values in found]


def _script_json(value: Any) -> str:
    """JSON that cannot end the script element that it stands in."""
    return json.dumps(value).replace("<", "\\u003c")
