"""What a run has left in its folder: results of the iterations, its configuration, recorded trajectories."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rllib_gigpo.report.trajectory_recorder import RECORDS_FOLDER

RESULTS_FILE = "result.json"
PARAMS_FILE = "params.json"
_RECORD = re.compile(r"iteration_(\d+)\.jsonl\.gz")


@dataclass(frozen=True)
class RunData:
    """A run, or a trial of Tune.

    Attributes:
        folder: Where it was read from.
        metrics: By name, "env_runners/success_rate", the value of each iteration that has one.
        params: Its configuration.
        trajectories: Files of recorded trajectories, by iteration.
    """

    folder: Path
    metrics: Mapping[str, Mapping[int, float]]
    params: Mapping[str, Any]
    trajectories: Mapping[int, Path]

    @property
    def iterations(self) -> list[int]:
        """All that have a metric, in order."""
        return sorted({iteration for values in self.metrics.values() for iteration in values})


def read_run(folder: Path) -> RunData:
    """Reads the folder of `rllib train`, or of a trial of Tune.

    An iteration that was trained again after a resume counts as it was trained last.

    Raises:
        ValueError: There are no results in the folder; if the trials of an experiment are, it names them.
    """
    path = folder / RESULTS_FILE
    if not path.is_file():
        raise ValueError(_nothing_to_read(folder))
    metrics: dict[str, dict[int, float]] = {}
    for number, result in enumerate(_json_lines(path), 1):
        iteration = int(result.get("training_iteration", number))
        for name, value in _numbers(result):
            metrics.setdefault(name, {})[iteration] = value
    if not metrics:
        raise ValueError(f"{path} holds no result: the run ended before its first iteration did")
    params = folder / PARAMS_FILE
    return RunData(
        folder=folder,
        metrics=metrics,
        params=json.loads(params.read_text()) if params.is_file() else {},
        trajectories=_records(folder / RECORDS_FOLDER),
    )


def _json_lines(path: Path) -> Iterator[dict[str, Any]]:
    lines = path.read_text().splitlines()
    for number, line in enumerate(lines, 1):
        try:
            yield json.loads(line)
        except json.JSONDecodeError as error:
            if number < len(lines):
                raise ValueError(f"{path}, line {number}, is not JSON: {error}") from error
            # A run that is still going, or was killed, may have written half of its last line.


def _numbers(result: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """The finite numbers of a nested result, with "/" between the keys."""
    for key, value in result.items():
        if isinstance(value, Mapping):
            yield from _numbers(value, f"{prefix}{key}/")
        elif isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < float("inf"):
            yield f"{prefix}{key}", float(value)


def _records(folder: Path) -> dict[int, Path]:
    found = ((_RECORD.fullmatch(path.name), path) for path in folder.glob("*")) if folder.is_dir() else ()
    return dict(sorted((int(match[1]), path) for match, path in found if match))


def _nothing_to_read(folder: Path) -> str:
    if not folder.is_dir():
        return f"{folder} is not a folder"
    trials = sorted(path.parent.name for path in folder.glob(f"*/{RESULTS_FILE}"))
    if trials:
        return f"{folder} holds several runs; name one: {', '.join(str(folder / trial) for trial in trials)}"
    return f"{folder} has no {RESULTS_FILE}: it is not the folder of a run or of a trial of Tune"
