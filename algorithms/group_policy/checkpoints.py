"""Checkpoints that are whole or refused: a manifest, written last, names the algorithm and the digest of every file."""

from __future__ import annotations

import hashlib
import json
import pickle
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.fs
from ray import cloudpickle
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.utils.checkpoints import Checkpointable

MANIFEST_FILE = "checkpoint_manifest.json"
_SAVING_INSIDE = ".saving"
# The trained model of each module, as a Hugging Face directory within a checkpoint.
_OWN_MODELS = "learner_group/learner/rl_module/*/huggingface"


def locate(path: Any, filesystem: pyarrow.fs.FileSystem | None = None) -> tuple[str, pyarrow.fs.FileSystem]:
    """Path and filesystem of a checkpoint: a path (made absolute), a URI of pyarrow or fsspec, or a Ray `Checkpoint`.

    Raises:
        ValueError: Neither pyarrow nor fsspec knows the URI's scheme, or what it takes is not installed.
    """
    # A Ray `Checkpoint`, of which there are two classes, says of itself that it is a PathLike, and then raises.
    if hasattr(path, "filesystem"):
        path, filesystem = path.path, path.filesystem
    if filesystem is not None:
        return str(path), filesystem
    if "://" in str(path):
        filesystem, path = _of_uri(str(path))
        return path.rstrip("/"), filesystem
    return str(Path(path).resolve()), pyarrow.fs.LocalFileSystem()


def _of_uri(uri: str) -> tuple[pyarrow.fs.FileSystem, str]:
    try:
        filesystem, path = pyarrow.fs.FileSystem.from_uri(uri)
        return filesystem, path
    except pyarrow.ArrowInvalid as unknown:
        import fsspec

        try:
            filesystem, path = fsspec.core.url_to_fs(uri)
        except (ValueError, ImportError) as error:
            raise ValueError(f"no checkpoint can be at {uri}: {unknown}; fsspec: {error}") from error
        return pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(filesystem)), path


@contextmanager
def saved_whole(path: str, filesystem: pyarrow.fs.FileSystem) -> Iterator[str]:
    """Gives a directory to write a checkpoint into, which becomes `path` when all is written.

    Locally that is `.<name>.saving` beside `path`. A checkpoint that is already there is moved to `.<name>.old`, and
    the new one into its place; `check_checkpoint` moves the old one back if a process is killed between the two. What
    else lies at the top of the old directory, a user's notes for example, moves on into the new one.

    A directory without a checkpoint, as Tune gives one, stays: the new files are moved into it, the manifest last. So
    it is with a checkpoint in a directory that cannot be moved away, a mount point or the working directory: there,
    and on other filesystems, which cannot rename and where it is `path` itself, a killed process may leave a
    checkpoint that is not whole, and so is refused.

    Raises:
        NotADirectoryError: `path` is a file. Nothing was written.
    """
    if not isinstance(filesystem, pyarrow.fs.LocalFileSystem):
        # From here on, what is there is a mixture of two checkpoints.
        if filesystem.get_file_info(f"{path}/{MANIFEST_FILE}").is_file:
            filesystem.delete_file(f"{path}/{MANIFEST_FILE}")
        yield path
        return
    final = Path(path).resolve()
    if final.exists() and not final.is_dir():
        raise NotADirectoryError(f"cannot save a checkpoint at {final}: it is a file; name a directory")
    _bring_back(final)
    if _old(final).is_dir():
        _remove_old(final)
    stays = final.is_dir() and not ((final / MANIFEST_FILE).is_file() and _can_move(final))
    # A directory that stays may be on another filesystem than the one around it.
    staging = final / _SAVING_INSIDE if stays else _staging(final)
    shutil.rmtree(staging, ignore_errors=True)  # of a process that was killed
    staging.mkdir(parents=True)
    try:
        yield str(staging)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    if stays:
        _move_into(staging, final)
    elif final.is_dir():
        final.rename(_old(final))
        staging.rename(final)
        _remove_old(final)
    else:
        staging.rename(final)


def own_class(algorithm: type) -> type:
    """The class itself of what runs as an actor, a trial of Tune: Ray makes a subclass of it, which nobody can import,
    and which a pickle would hold as code."""
    found: type = getattr(algorithm, "__ray_actor_class__", algorithm)
    return found


def write_class(path: str, filesystem: pyarrow.fs.FileSystem, algorithm: Checkpointable) -> None:
    """Writes RLlib's file of class and arguments again, with the class by name."""
    content = {
        "class": own_class(type(algorithm)),
        "ctor_args_and_kwargs": algorithm.get_ctor_args_and_kwargs(),
    }
    with filesystem.open_output_stream(f"{path}/{Checkpointable.CLASS_AND_CTOR_ARGS_FILE_NAME}") as stream:
        stream.write(cloudpickle.dumps(content))


def write_manifest(path: str, filesystem: pyarrow.fs.FileSystem, algorithm: type) -> None:
    """Lists everything in the directory `path`; to be called when all of it is written."""
    files = _files(path, filesystem)
    algorithm = own_class(algorithm)
    content = {
        "algorithm": algorithm.__name__,
        "bases": _names(algorithm)[1:],
        "files": files,
        "sha256": {name: _digest(f"{path}/{name}", filesystem) for name in files},
    }
    with filesystem.open_output_stream(f"{path}/{MANIFEST_FILE}") as stream:
        stream.write(json.dumps(content, indent=1).encode())


def check_checkpoint(path: str, filesystem: pyarrow.fs.FileSystem, algorithm: type) -> None:
    """Checks a checkpoint before anything is read from it; moves back one that a killed process had moved away.

    Raises:
        ValueError: As `check_files`; or another algorithm saved it, which the message names.
    """
    manifest = check_files(path, filesystem)
    saved_by = [manifest["algorithm"], *manifest["bases"]]
    if algorithm.__name__ not in saved_by and manifest["algorithm"] not in _names(algorithm):
        raise ValueError(
            f"{path} is a checkpoint of {manifest['algorithm']} and cannot be restored into {algorithm.__name__}. To "
            "start from its model, call load_weights(…) with it."
        )


def check_files(path: str, filesystem: pyarrow.fs.FileSystem) -> dict[str, Any]:
    """Checks that a checkpoint is whole, and every file what was written; returns the manifest.

    Raises:
        ValueError: There is none at `path`, it was saved only in part, or a file is missing or has another size or
            content. The message names the file.
    """
    if isinstance(filesystem, pyarrow.fs.LocalFileSystem):
        _bring_back(Path(path))
    found = _files(path, filesystem)
    if not found:
        raise ValueError(f"there is no checkpoint at {path}")
    if MANIFEST_FILE not in found:
        raise ValueError(
            f"{path} is no complete checkpoint: {MANIFEST_FILE}, which is written last, is missing. The process that "
            "saved it was probably stopped; take an earlier checkpoint."
        )
    with filesystem.open_input_stream(f"{path}/{MANIFEST_FILE}") as stream:
        text = stream.read()
    try:
        manifest: dict[str, Any] = json.loads(text)
        files, digests = dict(manifest["files"]), dict(manifest.get("sha256", {}))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"the checkpoint {path} is damaged: {MANIFEST_FILE} is no manifest ({error}); take another checkpoint."
        ) from error
    for name, size in files.items():
        if found.get(name) != size:
            problem = f"has {found[name]} bytes instead of {size}" if name in found else "is missing"
            raise ValueError(f"the checkpoint {path} is damaged: {name} {problem}; take another checkpoint.")
    for name, digest in digests.items():
        if _digest(f"{path}/{name}", filesystem) != digest:
            raise ValueError(
                f"the checkpoint {path} is damaged: {name} has another content than was written (SHA-256); take "
                "another checkpoint."
            )
    return manifest


def config_with_own_model(path: str, filesystem: pyarrow.fs.FileSystem) -> dict[str, Any] | None:
    """The config's state in a local checkpoint, with the checkpoint's own models where those at `model_path` are gone.

    Unpickles it: only for a checkpoint that `check_checkpoint` accepted, and whose origin is trusted.

    Returns:
        None where every model is still at its `model_path`.

    Raises:
        ValueError: One is gone and is needed itself: below a LoRA adapter, or as the reference policy of a KL term.
    """
    with filesystem.open_input_stream(f"{path}/{Checkpointable.CLASS_AND_CTOR_ARGS_FILE_NAME}") as stream:
        config: dict[str, Any] = pickle.load(stream)["ctor_args_and_kwargs"][0][0]
    found = {model.parent.name: model for model in sorted(Path(path).glob(_OWN_MODELS))}
    overrides: dict[str, dict[str, Any]] = dict(config["algorithm_config_overrides_per_module"])
    own_models = {}
    for module_id, model in found.items():
        of_module = {**config, **overrides.get(module_id, {})}
        if not Path(of_module["model_path"]).is_dir():
            _check_replaceable(of_module, path)
            own_models[module_id] = str(model)
    if not own_models:
        return None
    first = next(iter(own_models.values()))
    if len(found) > 1:
        overrides |= {id_: {**overrides.get(id_, {}), "model_path": model} for id_, model in own_models.items()}
    return {
        **config,
        "model_path": config["model_path"] if Path(config["model_path"]).is_dir() else first,
        "algorithm_config_overrides_per_module": overrides,
    }


def _check_replaceable(config: dict[str, Any], path: str) -> None:
    """Raises ValueError where a module needs the very model that is gone from its `model_path`."""
    if config["lora_rank"] or config["kl_coeff"]:
        use = "the LoRA adapter's base" if config["lora_rank"] else "the reference policy of kl_coeff"
        raise ValueError(
            f"model_path {config['model_path']!r} of the checkpoint {path} is not there any more. It is {use}, which "
            "the checkpoint does not hold: give from_checkpoint(…, config=…) a config with the model's new path."
        )


def _digest(file: str, filesystem: pyarrow.fs.FileSystem) -> str:
    with filesystem.open_input_stream(file) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _staging(final: Path) -> Path:
    """What is here is never whole."""
    return final.with_name(f".{final.name}.saving")


def _old(final: Path) -> Path:
    """What is here is a whole checkpoint that is being replaced."""
    return final.with_name(f".{final.name}.old")


def _can_move(directory: Path) -> bool:
    return not directory.is_mount() and not Path.cwd().is_relative_to(directory)


def _bring_back(final: Path) -> None:
    """Undoes a replacement in which the new checkpoint had not come into its place."""
    if not final.exists() and (_old(final) / MANIFEST_FILE).is_file():
        _old(final).rename(final)


def _remove_old(final: Path) -> None:
    """Ends a replacement: moves what is not of the old checkpoint into the new one, and removes the rest."""
    old = _old(final)
    try:
        files = list(json.loads((old / MANIFEST_FILE).read_bytes())["files"])
    except (OSError, ValueError, KeyError, TypeError):
        files = []  # damaged: it does not tell what is of the checkpoint
    of_checkpoint = {MANIFEST_FILE, _SAVING_INSIDE, *(name.split("/")[0] for name in files)}
    for entry in list(old.iterdir()):
        if entry.name not in of_checkpoint and not (final / entry.name).exists():
            entry.rename(final / entry.name)
    # A removal that is stopped halfway must leave nothing that looks like the old checkpoint.
    shutil.rmtree(_staging(final), ignore_errors=True)
    old.rename(_staging(final))
    shutil.rmtree(_staging(final))


def _move_into(staging: Path, final: Path) -> None:
    (final / MANIFEST_FILE).unlink(missing_ok=True)
    for entry in sorted(staging.iterdir(), key=lambda entry: entry.name == MANIFEST_FILE):
        target = final / entry.name
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target)
        entry.replace(target)
    staging.rmdir()


def _names(algorithm: type) -> list[str]:
    """Names of an algorithm's class and of its bases that are algorithms."""
    return [base.__name__ for base in algorithm.__mro__ if issubclass(base, Algorithm) and base is not Algorithm]


def _files(path: str, filesystem: pyarrow.fs.FileSystem) -> dict[str, int]:
    """Sizes of all files under `path`, by their path within it; empty where it does not exist."""
    selector = pyarrow.fs.FileSelector(path, recursive=True, allow_not_found=True)
    return {
        info.path[len(path) :].lstrip("/"): info.size for info in filesystem.get_file_info(selector) if info.is_file
    }
