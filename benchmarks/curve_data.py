"""The files of the learning curves: one CSV per suite, and the machines that made them."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from curve_settings import Run
from machine import this_machine

RUN_COLUMNS = ("suite", "environment", "algorithm", "ratio", "advantage_std_floor", "seed", "setting")

# Where `algo.train()` puts what a column holds; docs/metrics.md says what it means.
METRIC_PATHS = {
    "success_rate": "env_runners/success_rate",
    "episode_return_mean": "env_runners/episode_return_mean",
    "episode_len_mean": "env_runners/episode_len_mean",
    "invalid_action_share": "env_runners/invalid_action_share",
    "response_tokens_mean": "env_runners/response_tokens_mean",
    "entropy": "learners/default_policy/entropy",
    "gradient_norm": "learners/default_policy/gradient_norm",
    "kl_to_old": "learners/default_policy/kl_to_old",
    "clip_fraction": "learners/default_policy/clip_fraction",
    "zero_signal_share": "rollout_groups/zero_signal_share",
    "anchor_singleton_share": "rollout_groups/anchor_singleton_share",
}

COLUMNS = (*RUN_COLUMNS, "iteration", *METRIC_PATHS, "seconds", "panel_success_rate")


def csv_path(folder: Path, suite: str) -> Path:
    """Where the curves of a suite are."""
    return folder / f"{suite}.csv"


def read_rows(path: Path) -> list[dict[str, str]]:
    """All rows, as text; none where there is no file. Raises ValueError where the columns are not COLUMNS."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        reader = csv.DictReader(file)
        if tuple(reader.fieldnames or ()) != COLUMNS:
            raise ValueError(f"{path}: the columns are {reader.fieldnames}, they must be {list(COLUMNS)}")
        return list(reader)


def run_of(row: Mapping[str, str]) -> Run:
    """The run that a row belongs to."""
    return Run(
        suite=row["suite"],
        algorithm=row["algorithm"],
        ratio=row["ratio"],
        advantage_std_floor=float(row["advantage_std_floor"]),
        seed=int(row["seed"]),
        setting=row["setting"],
    )


def add_run(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Adds the rows of a finished run: all of them, or none if the process dies meanwhile."""
    temporary = path.with_suffix(".csv.part")
    with temporary.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(read_rows(path))
        writer.writerows(rows)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def record_machine(folder: Path) -> None:
    """Adds this machine, with its software, to machine.json, unless it is there."""
    path = folder / "machine.json"
    machines = json.loads(path.read_text()) if path.exists() else []
    if (machine := this_machine()) not in machines:
        path.write_text(json.dumps([*machines, machine], indent=2) + "\n")
