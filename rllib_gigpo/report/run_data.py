"""What a run has left in its folder: results of the iterations, its configuration, recorded trajectories."""

from __future__ import annotations

import gzip
import json
import logging
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rllib_gigpo.report.record_files import RECORDS_FOLDER
from rllib_gigpo.report.recorded_images import IMAGES_FOLDER

logger = logging.getLogger(__name__)

RESULTS_FILE = "result.json"
PARAMS_FILE = "params.json"
SUMMARY_FILE = "summary.json"
_RECORD = re.compile(r"iteration_(\d+)\.jsonl\.gz")


@dataclass(frozen=True)
class RunData:
    """A run, or a trial of Tune.

    Attributes:
        folder: Where it was read from.
        metrics: By name, "env_runners/success_rate", the value of each iteration that has one.
        params: Its configuration.
        trajectories: Files of recorded trajectories, by iteration.
        images: Files of recorded pictures, by the name that steps call them.
        summary: What `rllib train` says at the end of a run: algorithm, env, success_before, success_after, …; empty
            before that, and of a trial of Tune.
    """

    folder: Path
    metrics: Mapping[str, Mapping[int, float]]
    params: Mapping[str, Any]
    trajectories: Mapping[int, Path]
    images: Mapping[str, Path] = field(default_factory=dict)
    summary: Mapping[str, Any] = field(default_factory=dict)

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
        iteration = _iteration(result.get("training_iteration", number), f"{path}, result {number}")
        for name, value in _numbers(result):
            metrics.setdefault(name, {})[iteration] = value
    if not metrics:
        raise ValueError(f"{path} holds no result: the run ended before its first iteration did")
    return RunData(
        folder=folder,
        metrics=metrics,
        params=_json_object(folder / PARAMS_FILE, "configuration"),
        trajectories=_records(folder / RECORDS_FOLDER),
        images={path.stem: path for path in sorted((folder / RECORDS_FOLDER / IMAGES_FOLDER).glob("*.png"))},
        summary=_json_object(folder / SUMMARY_FILE, "summary"),
    )


def _json_lines(path: Path) -> Iterator[dict[str, Any]]:
    lines = [line for line in path.read_bytes().splitlines() if line.strip()]
    for number, line in enumerate(lines, 1):
        try:
            result = json.loads(line)
        except ValueError as error:  # no JSON, or no UTF-8
            if number < len(lines):
                raise ValueError(f"{path}, line {number}, is not JSON: {error}") from error
            return  # a run that is still going, or was killed, may have written half of its last line
        if not isinstance(result, dict):
            raise ValueError(f"{path}, line {number}, is no result of an iteration: {line[:80]!r}")
        yield result


def _iteration(value: Any, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{where}: training_iteration={value!r} is no integer")
    return value


def _json_object(path: Path, what: str) -> Mapping[str, Any]:
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path} is damaged: it is not JSON ({error}); a report needs none") from error
    if not isinstance(found, dict):
        raise ValueError(f"{path} is damaged: it holds no {what}; a report needs none")
    return found


def _numbers(result: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """The finite numbers of a nested result, with "/" between the keys."""
    for key, value in result.items():
        if isinstance(value, Mapping):
            yield from _numbers(value, f"{prefix}{key}/")
        elif isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < float("inf"):
            yield f"{prefix}{key}", float(value)


def _records(folder: Path) -> dict[int, Path]:
    found = ((_RECORD.fullmatch(path.name), path) for path in folder.glob("*")) if folder.is_dir() else ()
    return dict(sorted((int(match[1]), path) for match, path in found if match and _is_whole(path)))


def _is_whole(path: Path) -> bool:
    try:
        if not gzip.decompress(path.read_bytes()):
            raise EOFError("it is empty")
    except (OSError, EOFError, zlib.error) as error:
        logger.warning("%s is damaged and left out: %s", path, error)
        return False
    return True


def _nothing_to_read(folder: Path) -> str:
    if not folder.is_dir():
        return f"{folder} is not a folder"
    trials = sorted(path.parent.name for path in folder.glob(f"*/{RESULTS_FILE}"))
    if trials:
        return f"{folder} holds several runs; name one: {', '.join(str(folder / trial) for trial in trials)}"
    return f"{folder} has no {RESULTS_FILE}: it is not the folder of a run or of a trial of Tune"
