"""Checkpoints on disk: which algorithm one is of, and is it whole. Loads no pickle, so that nothing of it runs."""

from __future__ import annotations

import hashlib
import json
import pickletools
import pkgutil
from pathlib import Path
from typing import TYPE_CHECKING

from rllib_gigpo import registry

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm import Algorithm

_RLLIB_FILE = "rllib_checkpoint.json"
_CLASS_FILE = "class_and_ctor_args.pkl"
# Written last, by our algorithms: {"files": {path within the checkpoint: bytes}, "sha256": {path: digest}}.
_MANIFEST_FILE = "checkpoint_manifest.json"


def checkpoint_class(path: Path) -> type[Algorithm]:
    """The Algorithm of a whole checkpoint, a registered one or a subclass of one.

    Raises:
        ValueError: There is no checkpoint at `path`, it is of another algorithm, or a file of it is missing or cut off;
            the message says which.
    """
    _bring_back(path)
    if not path.exists():
        raise ValueError(f"checkpoint {path} does not exist")
    if not (path / _RLLIB_FILE).is_file():
        inside = sorted(str(found.parent) for found in path.glob(f"**/{_RLLIB_FILE}"))
        hint = f"; inside of it there is {inside[-1]}" if inside else ""
        raise ValueError(f"{path} is not a checkpoint: there is no {_RLLIB_FILE} in it{hint}")
    if not (path / _CLASS_FILE).is_file():
        raise ValueError(f"checkpoint {path} is incomplete: {_CLASS_FILE} is missing")
    found = _registered_class(path)
    _check_files(path)
    return found


def _bring_back(path: Path) -> None:
    """Puts a checkpoint back that was moved aside for a newer one, by a process that was then killed."""
    if path.exists():
        return
    old = path.absolute().with_name(f".{path.name}.old")
    if (old / _MANIFEST_FILE).is_file():
        old.rename(path)


def check_restorable(path: Path, algo_class: type[Algorithm]) -> None:
    """Raises ValueError unless `path` is a whole checkpoint of `algo_class`."""
    found = checkpoint_class(path)
    if found is not algo_class:
        raise ValueError(f"{path} is a checkpoint of {found.__name__}; {algo_class.__name__} cannot restore it")


def _registered_class(path: Path) -> type[Algorithm]:
    name = _pickled_class(path / _CLASS_FILE)
    try:
        found = pkgutil.resolve_name(name)
    except (ImportError, AttributeError, ValueError) as error:
        name = name or "no class"
        raise ValueError(f"{path} is a checkpoint of {name}, which cannot be imported: {error}") from error
    # Algorithms are registered by their class's name; the others need not be imported.
    bases = found.__mro__ if isinstance(found, type) else ()
    names = {base.__name__ for base in bases}.intersection(registry.algorithm_names())
    if not any(registry.algorithm_class(registered) in bases for registered in names):
        raise ValueError(
            f"{path} is a checkpoint of {name}, which is not one of {', '.join(registry.algorithm_names())}, nor a "
            f"subclass of one"
        )
    return found


def _check_files(path: Path) -> None:
    manifest = path / _MANIFEST_FILE
    if not manifest.is_file():
        raise ValueError(
            f"checkpoint {path} is incomplete: {_MANIFEST_FILE}, which is written last, is missing; take an earlier one"
        )
    try:
        content = json.loads(manifest.read_text())
        files = {path / name: int(size) for name, size in content["files"].items()}
        digests = {path / name: str(digest) for name, digest in content.get("sha256", {}).items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"checkpoint {path} is damaged: {_MANIFEST_FILE} is no manifest ({error})") from error
    for file, size in files.items():
        if not file.is_file():
            raise ValueError(f"checkpoint {path} is incomplete: {file.relative_to(path)} is missing")
        if (found := file.stat().st_size) != size:
            name = file.relative_to(path)
            raise ValueError(f"checkpoint {path} is damaged: {name} has {found} bytes instead of {size}")
    for file, digest in digests.items():
        with file.open("rb") as stream:
            if hashlib.file_digest(stream, "sha256").hexdigest() != digest:
                name = file.relative_to(path)
                raise ValueError(f"checkpoint {path} is damaged: {name} has another content than was written (SHA-256)")


def _pickled_class(path: Path) -> str:
    """The first class that a pickle names, as "module:Class", read without running any of it; empty for none."""
    strings: list[str] = []
    try:
        with path.open("rb") as file:
            for opcode, argument, _ in pickletools.genops(file):
                if opcode.name == "GLOBAL":
                    return str(argument).replace(" ", ":")
                if opcode.name == "STACK_GLOBAL":
                    return ":".join(strings[-2:])
                if isinstance(argument, str):
                    strings.append(argument)
    except ValueError as error:
        raise ValueError(f"checkpoint file {path} is damaged: {error}") from error
    return ""
