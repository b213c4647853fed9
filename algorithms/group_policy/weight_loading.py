"""Weights without anything else: of a checkpoint or a Hugging Face directory, from safetensors alone."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Any

import pyarrow.fs
from ray.rllib.core.learner.learner_group import LearnerGroup

from rllib_gigpo.algorithms.group_policy.checkpoints import MANIFEST_FILE, check_files

_MODULES = "learner_group/learner/rl_module"
_MODEL = "huggingface"
_MODEL_FILES = ("config.json", "adapter_config.json")


def weight_folders(
    path: str, filesystem: pyarrow.fs.FileSystem, *, policies: Collection[str], module_id: str | None
) -> dict[str, str]:
    """The folder with the weights of each module, by module.

    Args:
        path: A checkpoint, or a Hugging Face directory of a model or of an adapter.
        filesystem: Of the path.
        policies: All modules that act.
        module_id: The one that gets weights; None for all of them.

    Raises:
        ValueError: `path` is neither, is a checkpoint with damage, or does not tell which weights are whose.
    """
    if module_id is not None and module_id not in policies:
        raise ValueError(f"module_id={module_id!r} is no module of this algorithm; it has {sorted(policies)}")
    wanted = sorted(policies) if module_id is None else [module_id]
    if _is_file(f"{path}/{MANIFEST_FILE}", filesystem):
        check_files(path, filesystem)
        folders = {id_: f"{path}/{_MODULES}/{id_}/{_MODEL}" for id_ in wanted}
        for id_, folder in folders.items():
            if not any(_is_file(f"{folder}/{name}", filesystem) for name in _MODEL_FILES):
                raise ValueError(f"the checkpoint {path} has no module {id_!r}: {folder} is not there")
        return folders
    if not any(_is_file(f"{path}/{name}", filesystem) for name in _MODEL_FILES):
        raise ValueError(
            f"there are no weights at {path}: a checkpoint has a {MANIFEST_FILE}, a Hugging Face directory a "
            "config.json or, of an adapter, an adapter_config.json"
        )
    if len(wanted) > 1:
        raise ValueError(f"{path} holds one model, and there are {wanted}: name one with load_weights(…, module_id=…)")
    return {wanted[0]: path}


def load_weights(learner_group: LearnerGroup, folders: dict[str, str], filesystem: pyarrow.fs.FileSystem) -> None:
    """Has every learner read the weights of modules.

    Raises:
        ValueError: Names or shapes of a module's weights are not those of its model, or they are pickles. Its own are
            as they were then; modules before it, in the order of `folders`, have got theirs.
        RuntimeError: A learner failed otherwise.
    """
    for result in learner_group.foreach_learner(partial(_load, folders=folders, filesystem=filesystem)):
        if not result.ok:
            raise RuntimeError(f"a learner could not load weights: {result.get()}") from result.get()
        if (problem := result.get()) is not None:
            raise ValueError(problem)


def _load(learner: Any, folders: dict[str, str], filesystem: pyarrow.fs.FileSystem) -> str | None:
    """What is wrong with the weights. An exception would cost the learner's life."""
    for module_id, folder in folders.items():
        try:
            learner.module[module_id].unwrapped().load_weights(folder, filesystem)
        except (ValueError, OSError) as error:
            return f"the weights in {folder} cannot be those of module {module_id!r}: {error}"
    return None


def _is_file(path: str, filesystem: pyarrow.fs.FileSystem) -> bool:
    is_file: bool = filesystem.get_file_info(path).is_file
    return is_file
