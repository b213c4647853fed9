"""The curves of a report: which metrics stand together, and how."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from rllib_gigpo.report.run_data import RunData

Kind = Literal["lines", "areas", "bars"]
_DASHES = ("solid", "dash", "dot", "dashdot")


@dataclass(frozen=True)
class Panel:
    """A picture.

    Attributes:
        title: Above it.
        unit: Of its vertical axis.
        metrics: Regular expressions of metric names; a group in parentheses is how the legend calls the metric.
        kind: "areas" and "bars" are stacked.
        note: Below it.
    """

    title: str
    unit: str
    metrics: tuple[str, ...]
    kind: Kind = "lines"
    note: str = ""


PANELS = (
    Panel("Success", "share won", (r"env_runners/(success_rate)", r"(evaluation)/env_runners/success_rate")),
    Panel("Return", "reward", (r"env_runners/(episode_return_(?:mean|min|max))",)),
    Panel("Episode length", "steps", (r"env_runners/(episode_len_(?:mean|max))",)),
    Panel("Response length", "tokens", (r"env_runners/(response_tokens_(?:mean|max))",)),
    Panel("Invalid actions", "share of steps", (r"env_runners/(invalid_action_share)",)),
    Panel("How trajectories ended", "trajectories", (r"env_runners/endings/(.+)",), "areas"),
    Panel(
        "Step groups by size",
        "share of rows",
        (r"rollout_groups/anchor_rows_share_(.+)",),
        "areas",
        "Rows by how many rows of their group share their anchor state. Where nearly all are alone (1), there is no "
        "step-level credit.",
    ),
    Panel("Mean size of a step group", "rows", (r"rollout_groups/(anchor_group_size_mean)",)),
    Panel("Groups without a signal", "share of groups", (r"rollout_groups/(zero_signal_share)",)),
    Panel("Advantage spread", "", (r"rollout_groups/((?:episode_|step_)?advantage_(?:std|iqr|above_one_share))",)),
    Panel("Entropy", "nats per token", (r"learners/(.+)/entropy",)),
    Panel("KL to the policy before the update", "nats per token", (r"learners/(.+)/kl_to_old",)),
    Panel("KL to the reference policy", "nats per token", (r"learners/(.+)/kl_to_reference",)),
    Panel("Gradient norm", "", (r"learners/(.+/(?:critic_)?gradient_norm)",)),
    Panel("Clip fraction", "share of tokens", (r"learners/(.+)/clip_fraction",)),
    Panel("Sampler–learner gap", "nats", (r"learners/(.+/sampler_learner_gap_(?:mean|max))",)),
    Panel("Policy loss", "", (r"learners/(.+)/policy_loss",)),
    Panel(
        "Time of an iteration",
        "seconds",
        (r"timers/(env_runner_sampling_timer|credit_assignment|learner_update_timer|synch_weights)",),
        "bars",
        "RLlib reports moving averages of these.",
    ),
)


def figures(runs: Mapping[str, RunData]) -> Iterator[tuple[Panel, dict[str, Any]]]:
    """Each panel that a run has metrics for, with Plotly's `{"data": […], "layout": {…}}`.

    Args:
        runs: By what the page calls them. Lines of several are in one picture, a pattern of dashes each; what is
            stacked has a picture for each.
    """
    for panel in PANELS:
        series = {label: found for label, run in runs.items() if (found := _series(run.metrics, panel))}
        apart = [[label] for label in series] if panel.kind != "lines" else [list(series)]
        for labels in filter(None, apart):
            traces = [
                _trace(panel.kind, name if len(labels) == 1 else f"{label}: {name}", values, list(runs).index(label))
                for label in labels
                for name, values in series[label].items()
            ]
            shown = (
                replace(panel, title=f"{panel.title}: {labels[0]}")
                if panel.kind != "lines" and len(runs) > 1
                else panel
            )
            yield shown, {"data": traces, "layout": _layout(shown, many=len(traces) > 1)}


def _series(metrics: Mapping[str, Mapping[int, float]], panel: Panel) -> dict[str, Mapping[int, float]]:
    found = ((re.fullmatch(pattern, name), name) for pattern in panel.metrics for name in sorted(metrics, key=_natural))
    matching = {match[1]: metrics[name] for match, name in found if match}
    # Stacked, a series that is 0 throughout only makes the legend longer.
    return {n: v for n, v in matching.items() if panel.kind == "lines" or any(v.values())}


def _natural(name: str) -> list[tuple[int, str]]:
    """Sorts "share_2_4" before "share_10_49"."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", name)]


def _trace(kind: Kind, name: str, values: Mapping[int, float], run: int) -> dict[str, Any]:
    iterations = sorted(values)
    shown = {"x": iterations, "y": [values[iteration] for iteration in iterations], "name": name}
    if kind == "bars":
        return shown | {"type": "bar"}
    lines = {"type": "scatter", "mode": "lines+markers" if len(iterations) == 1 else "lines"}
    if kind == "areas":
        return shown | lines | {"stackgroup": "all"}
    return shown | lines | ({"line": {"dash": _DASHES[run % len(_DASHES)]}} if run else {})


def _layout(panel: Panel, *, many: bool) -> dict[str, Any]:
    return {
        "title": {"text": panel.title, "font": {"size": 14}},
        "xaxis": {"title": {"text": "iteration", "standoff": 4}},
        "yaxis": {"title": {"text": panel.unit}, "rangemode": "tozero" if panel.kind != "lines" else "normal"},
        "barmode": "stack",
        "showlegend": many,
        "legend": {"orientation": "h", "y": -0.25, "yanchor": "top"},
        "margin": {"l": 60, "r": 10, "t": 36, "b": 45},
        "height": 300,
    }
