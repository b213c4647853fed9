"""Checkpoints that are whole or refused: a manifest, written last, names the algorithm and every file with its size."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow.fs
from ray.rllib.algorithms.algorithm import Algorithm

MANIFEST_FILE = "checkpoint_manifest.json"


def locate(path: Any, filesystem: pyarrow.fs.FileSystem | None = None) -> tuple[str, pyarrow.fs.FileSystem]:
    """Path and filesystem of a checkpoint: a path (made absolute), a URI, or a Ray `Checkpoint`."""
    if not isinstance(path, str | PathLike):
        path, filesystem = path.path, path.filesystem
    if filesystem is not None:
        return str(path), filesystem
    if "://" in str(path):
        filesystem, path = pyarrow.fs.FileSystem.from_uri(str(path))
        return path.rstrip("/"), filesystem
    return str(Path(path).resolve()), pyarrow.fs.LocalFileSystem()


@contextmanager
def saved_whole(path: str, filesystem: pyarrow.fs.FileSystem) -> Iterator[str]:
    """Gives a directory to write a checkpoint into, which becomes `path` when all is written.

    Locally that is a temporary directory beside or inside of `path`. A process that is killed leaves behind what was at
    `path` before; only in the moment in which an older checkpoint's files are replaced one by one is there neither, and
    then the manifest is missing. On other filesystems, which cannot rename, it is `path` itself.
    """
    if not isinstance(filesystem, pyarrow.fs.LocalFileSystem):
        yield path
        return
    final = Path(path)
    staging = final / ".saving" if final.is_dir() else final.with_name(f".{final.name}.saving")
    shutil.rmtree(staging, ignore_errors=True)  # of a process that was killed
    staging.mkdir(parents=True)
    try:
        yield str(staging)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    if not final.is_dir():
        staging.rename(final)
        return
    (final / MANIFEST_FILE).unlink(missing_ok=True)
    for entry in sorted(staging.iterdir(), key=lambda entry: entry.name == MANIFEST_FILE):
        target = final / entry.name
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target)
        entry.replace(target)
    staging.rmdir()


def write_manifest(path: str, filesystem: pyarrow.fs.FileSystem, algorithm: type) -> None:
    """Lists everything in the directory `path`; to be called when all of it is written."""
    content = {"algorithm": algorithm.__name__, "bases": _names(algorithm)[1:], "files": _files(path, filesystem)}
    with filesystem.open_output_stream(f"{path}/{MANIFEST_FILE}") as stream:
        stream.write(json.dumps(content, indent=1).encode())


def check_checkpoint(path: str, filesystem: pyarrow.fs.FileSystem, algorithm: type) -> None:
    """Checks a checkpoint before anything is read from it.

    Raises:
        ValueError: There is none at `path`, it was saved only in part, a file is missing or has another size, or
            another algorithm saved it. The message names the file, or the algorithms.
    """
    found = _files(path, filesystem)
    if not found:
        raise ValueError(f"there is no checkpoint at {path}")
    if MANIFEST_FILE not in found:
        raise ValueError(
            f"{path} is no complete checkpoint: {MANIFEST_FILE}, which is written last, is missing. The process that "
            "saved it was probably stopped; take an earlier checkpoint."
        )
    with filesystem.open_input_stream(f"{path}/{MANIFEST_FILE}") as stream:
        manifest = json.loads(stream.read())
    for name, size in manifest["files"].items():
        if found.get(name) != size:
            problem = f"has {found[name]} bytes instead of {size}" if name in found else "is missing"
            raise ValueError(f"the checkpoint {path} is damaged: {name} {problem}; take another checkpoint.")
    saved_by = [manifest["algorithm"], *manifest["bases"]]
    if algorithm.__name__ not in saved_by and manifest["algorithm"] not in _names(algorithm):
        raise ValueError(
            f"{path} is a checkpoint of {manifest['algorithm']} and cannot be restored into {algorithm.__name__}. To "
            "start from its model, set language_model(model_path=…) to the huggingface directory inside of it."
        )


def _names(algorithm: type) -> list[str]:
    """Names of an algorithm's class and of its bases that are algorithms."""
    return [base.__name__ for base in algorithm.__mro__ if issubclass(base, Algorithm) and base is not Algorithm]


def _files(path: str, filesystem: pyarrow.fs.FileSystem) -> dict[str, int]:
    """Sizes of all files under `path`, by their path within it; empty where it does not exist."""
    selector = pyarrow.fs.FileSelector(path, recursive=True, allow_not_found=True)
    return {
        info.path[len(path) :].lstrip("/"): info.size for info in filesystem.get_file_info(selector) if info.is_file
    }
