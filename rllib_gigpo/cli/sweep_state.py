"""Keeps the state of a run by Tune whole, whenever its process is killed.

Tune copies its state over the file that is there, every ten seconds. A process that is killed meanwhile leaves half a
file; Tune logs that it cannot read it, and starts anew with an empty config.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ray import tune

if TYPE_CHECKING:
    from ray.tune.experiment import Trial

STATE_FILE = "sweep_state.zip"
_PARTS = ("experiment_state-*.json", "basic-variant-state-*.json", "callback-states-*.pkl")


class KeepsState(tune.Callback):
    """Puts Tune's state into `STATE_FILE` in the run's folder whenever a step has changed it, whole or not at all."""

    def __init__(self) -> None:
        self._kept_ns = 0  # when what is in the archive was last changed

    def on_step_end(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        """Called by the thread that writes the state, so that the files are whole."""
        if not trials:
            return
        storage = trials[0].storage
        parts = list(_parts(Path(storage.experiment_driver_staging_path)))
        changed_ns = max((path.stat().st_mtime_ns for path in parts), default=0)
        if changed_ns <= self._kept_ns:
            return
        archive = Path(storage.experiment_fs_path) / STATE_FILE
        unfinished = archive.with_suffix(".unfinished")
        with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as file:
            for path in parts:
                file.write(path, path.name)
        os.replace(unfinished, archive)
        self._kept_ns = changed_ns


def check_state(run_dir: Path) -> None:
    """Raises ValueError where the run was killed before there was any state that can be read."""
    if (run_dir / STATE_FILE).is_file():
        return
    states = sorted(run_dir.glob(_PARTS[0]))
    try:
        json.loads(states[-1].read_text())
    except (IndexError, ValueError) as error:
        raise ValueError(
            f"{run_dir} cannot be resumed: it ended before Tune had written down what its trials are. Start it again"
        ) from error


def restore_state(run_dir: Path) -> None:
    """Puts the state that was kept in place of what Tune left in the run's folder.

    Nothing where none was kept, or where Tune's is whole: it is newer then.
    """
    archive = run_dir / STATE_FILE
    if not archive.is_file() or _is_whole(run_dir):
        return
    with zipfile.ZipFile(archive) as file:
        for path in _parts(run_dir):
            path.unlink()
        file.extractall(run_dir)


def _is_whole(run_dir: Path) -> bool:
    """Whether Tune's own state is there to its end."""
    states, pickles = sorted(run_dir.glob(_PARTS[0])), [path for part in _PARTS[1:] for path in run_dir.glob(part)]
    try:
        json.loads(states[-1].read_text())
    except (IndexError, ValueError):
        return False
    # Pickles, whatever their names say. They end with a full stop, and are not read here.
    return all(path.read_bytes().endswith(b".") for path in pickles)


def _parts(folder: Path) -> Iterator[Path]:
    for pattern in _PARTS:
        yield from folder.glob(pattern)
