"""How the trials of a run by Tune ended: which is the best, a table, and what is written down."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow.fs
from ray.tune import Checkpoint, Result
from rich.table import Column, Table

from rllib_gigpo.cli.experiment import Experiment
from rllib_gigpo.cli.progress import COLUMNS, MISSING, cells, numbers, value_at
from rllib_gigpo.cli.search_space import point_text, searched_paths


@dataclass(frozen=True)
class TrialOutcome:
    """One trial.

    Attributes:
        name: Of its folder.
        parameters: Its point of the search space, like "lr=0.001".
        metrics: Its last result, empty if there was none.
        score: What the metric was in it, None if it was not there, or no number.
        checkpoints: Those that were kept, oldest first.
        error: One line if it failed.
    """

    name: str
    parameters: str
    metrics: Mapping[str, Any]
    score: float | None
    checkpoints: Sequence[str]
    error: str | None

    @classmethod
    def from_result(cls, result: Result, experiment: Experiment) -> TrialOutcome:
        """The outcome that Tune's result holds."""
        metrics = result.metrics or {}
        score = value_at(metrics, experiment.metric)
        config = _config_of(result)
        point = {path: value for path in searched_paths(experiment.config) if (value := _at(config, path)) is not None}
        return cls(
            name=Path(result.path).name,
            parameters=point_text(point),
            metrics=metrics,
            score=float(score) if isinstance(score, int | float) and not math.isnan(score) else None,
            checkpoints=sorted(checkpoint.path for checkpoint, _ in result.best_checkpoints if _is_there(checkpoint)),
            error=None if result.error is None else _last_line(result.error),
        )

    def to_json(self) -> dict[str, Any]:
        """What trials.json has of it."""
        return {
            "trial": self.name,
            "parameters": self.parameters,
            "metrics": numbers(self.metrics),
            "score": None if self.score is None or math.isinf(self.score) else self.score,
            "checkpoints": list(self.checkpoints),
            "error": self.error,
        }


def best_trial(trials: Sequence[TrialOutcome], mode: str) -> TrialOutcome | None:
    """The trial with the best score, the first of equal ones; None where no trial has one."""
    scored = [trial for trial in trials if trial.score is not None and trial.error is None]
    sign = 1 if mode == "max" else -1
    return max(scored, key=lambda trial: sign * (trial.score or 0.0), default=None)


def trials_table(trials: Sequence[TrialOutcome], metric: str) -> Table:
    """One row for each trial; the metric comes last, and once."""
    heading_of = {column.path: column.heading for column in COLUMNS}
    shown = [index for index, column in enumerate(COLUMNS[:3]) if column.path != metric]
    table = Table(*(Column(name, overflow="fold") for name in ("trial", "parameters")))
    for heading in (*(COLUMNS[index].heading for index in shown), heading_of.get(metric, metric)):
        table.add_column(heading)
    for trial in trials:
        last = "failed" if trial.error else MISSING if trial.score is None else f"{trial.score:.4g}"
        of_trial = cells(trial.metrics)
        table.add_row(trial.name, trial.parameters, *(of_trial[index] for index in shown), last)
    return table


def _config_of(result: Result) -> Mapping[str, Any]:
    """The trial's config; of a trial without any result, what Tune's logger wrote at its start."""
    if result.config:
        return dict(result.config)
    started = Path(result.path) / "params.json"
    config: dict[str, Any] = json.loads(started.read_text()) if started.is_file() else {}
    return config


def _at(config: Any, path: tuple[Any, ...]) -> Any:
    try:
        return reduce(lambda level, key: level[key], path, config)
    except (KeyError, IndexError, TypeError):
        return None


def _is_there(checkpoint: Checkpoint) -> bool:
    """Whether a checkpoint that Tune names was not removed: of a run that was killed and resumed, it may name such."""
    found = checkpoint.filesystem.get_file_info(checkpoint.path)
    return bool(found.type != pyarrow.fs.FileType.NotFound)


def _last_line(error: Exception) -> str:
    """The error itself: Ray puts the traceback of the worker in front of it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
