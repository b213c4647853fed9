"""The folder of a run, and what the command says about checkpoints in it."""

from __future__ import annotations

import re
import shlex
import tempfile
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path


def new_run_dir(storage_path: Path, name: str) -> Path:
    """A new folder `<storage_path>/<name>-<time>`, absolute; two runs of one second do not share it."""
    stamp = datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
    base = storage_path.expanduser().absolute() / f"{name}-{stamp}"
    run_dir, count = base, 1
    while True:
        try:
            run_dir.mkdir(parents=True)
            return run_dir
        except FileExistsError:
            count += 1
            run_dir = base.with_name(f"{base.name}-{count}")


def check_storage_path(storage_path: Path) -> None:
    """Makes the folder if it is not there. Raises ValueError where that, or a file in it, cannot be made."""
    if scheme := re.match(r"[a-z][a-z0-9+.-]+:/", str(storage_path)):
        raise ValueError(
            f"storage path {storage_path} is a URI ({scheme[0]}/…), and the command writes to a folder: mount the "
            "storage, or train from Python, where algo.save_to_path(…) and tune.RunConfig(storage_path=…) take a URI"
        )
    try:
        storage_path.expanduser().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=storage_path.expanduser()):
            pass
    except OSError as error:
        raise ValueError(
            f"storage path {storage_path} cannot be written to ({error.strerror}); name another with --storage-path"
        ) from error


def run_dirs(storage_path: Path, name: str) -> list[Path]:
    """The folders of earlier runs of that name, absolute, oldest first."""
    storage = storage_path.expanduser().absolute()
    pattern = re.compile(re.escape(name) + r"-\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d(-\d+)?")
    found = storage.iterdir() if storage.is_dir() else ()
    return sorted(path for path in found if pattern.fullmatch(path.name))


def checkpoint_text(checkpoints: Iterable[Path | str], best: Path | str | None = None) -> str:
    """The checkpoints, one a line, and the command to evaluate the best of them, else the last."""
    lines = [str(path) for path in checkpoints]
    if not lines:
        return "no checkpoint was saved"
    return "\n".join(
        ["checkpoints:", *(f"  {line}" for line in lines), f"try: rllib evaluate {shlex.quote(str(best or lines[-1]))}"]
    )
