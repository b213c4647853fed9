"""Keeps the files of a run by Tune whole, whenever its process is killed.

Tune writes its state and the logs of all trials, of those that have ended too, into a folder of Ray's session, and
copies them over the files in the run's folder every ten seconds. A process that is killed meanwhile leaves empty or
half files. Of a state that it cannot read Tune logs that, and starts anew with an empty config; of a log it takes what
is there.
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
_STAGING = "staging_path.txt"  # in the archive: the folder that Tune copies from
# A line for each result.
_LOGS = ("result.json", "progress.csv")


class KeepsState(tune.Callback):
    """Puts Tune's state into `STATE_FILE` in the run's folder whenever a step has changed it, whole or not at all."""

    def __init__(self) -> None:
        self._kept_ns = 0  # when what is in the archive was last changed

    def on_step_end(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        """Called by the thread that writes the state, so that the files are whole."""
        if not trials:
            return
        storage = trials[0].storage
        staging = Path(storage.experiment_driver_staging_path)
        parts = list(_parts(staging))
        changed_ns = max((path.stat().st_mtime_ns for path in parts), default=0)
        if changed_ns <= self._kept_ns:
            return
        archive = Path(storage.experiment_fs_path) / STATE_FILE
        unfinished = archive.with_suffix(".unfinished")
        with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr(_STAGING, str(staging))
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
    """Mends what Tune left in the run's folder.

    Files of the trials that were cut off are taken from where Tune had copied them from, if that is still there. The
    state that was kept takes the place of Tune's, unless that is whole: it is newer then.
    """
    archive = run_dir / STATE_FILE
    if not archive.is_file():
        return
    with zipfile.ZipFile(archive) as file:
        # An archive of an earlier version does not say where.
        staging = Path(file.read(_STAGING).decode()) if _STAGING in file.namelist() else None
        _mend_trials(run_dir, staging)
        if _is_whole(run_dir):
            return
        for path in _parts(run_dir):
            path.unlink()
        file.extractall(run_dir, [name for name in file.namelist() if name != _STAGING])


def _mend_trials(run_dir: Path, staging: Path | None) -> None:
    """Makes the files in the trials' folders whole, where `staging`, if it is known, still has what they lack."""
    for path in sorted(run_dir.glob("*/*")):
        if not path.is_file():
            continue
        content = path.read_bytes()
        source = None if staging is None else staging / path.relative_to(run_dir)
        has_more = source is not None and source.is_file() and source.stat().st_size > len(content)
        written = source.read_bytes() if source is not None and has_more else content
        if path.name not in _LOGS:
            if has_more:
                _replace(path, written)
        elif not content.endswith(b"\n"):
            # A log may be ahead of the state, and then has an iteration that will be trained again.
            _replace(path, written[: written.rfind(b"\n") + 1])


def _replace(path: Path, content: bytes) -> None:
    unfinished = path.with_name(f"{path.name}.unfinished")
    unfinished.write_bytes(content)
    os.replace(unfinished, path)


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
