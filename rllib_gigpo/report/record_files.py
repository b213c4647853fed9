"""Where recorded trajectories lie, and how they are read back."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

RECORDS_FOLDER = "trajectories"


def records_folder(logdir: str | Path, storage: Any) -> Path:
    """The folder of an algorithm's records: in its trial's folder where Tune keeps that on a local file system, else in
    its log folder.

    Args:
        logdir: The algorithm's.
        storage: Ray's `StorageContext` of a trial; None outside of Tune.
    """
    is_local = storage is not None and storage.storage_filesystem.type_name == "local"
    return Path(storage.trial_fs_path if is_local else logdir) / RECORDS_FOLDER


def record_file(folder: Path, iteration: int) -> Path:
    """The file of an iteration's trajectories, a line each."""
    return folder / f"iteration_{iteration:06d}.jsonl.gz"


def read_records(path: Path) -> list[dict[str, Any]]:
    """The trajectories in a file. Raises OSError, EOFError or zlib.error where it is not there or damaged."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]
