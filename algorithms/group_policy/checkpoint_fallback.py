"""Which checkpoint a trial goes on from where the one that Tune names is gone or damaged: its newest whole one.

Tune first removes the checkpoints that it does not keep, and then writes down that there is a newer one. A process that
is killed in between leaves a state that names a removed checkpoint, or half of one, and says nothing of the newer one.
"""

from __future__ import annotations

import logging
import re
import shutil
from pathlib import Path

import pyarrow.fs
from ray.train._internal.storage import StorageContext
from ray.tune import Checkpoint

from rllib_gigpo.algorithms.group_policy.checkpoints import check_checkpoint, locate

logger = logging.getLogger(__name__)

# As Tune names the checkpoints of a trial, in its folder.
_NAME = re.compile(r"checkpoint_\d{6}")


def whole_checkpoint(named: Checkpoint, storage: StorageContext, algorithm: type) -> Checkpoint:
    """`named`, or the newest whole checkpoint of the same trial where that one is gone or damaged.

    A newer one in the trial's own local folder gets the name that Tune knows, so that Tune's state is true again: else
    Tune would save the next checkpoint over it, file by file.

    Args:
        named: What Tune asks for. One that is of no trial of this run, such as one that a user named, is that or none.
        storage: Where the trial and its run are.
        algorithm: What is to go on from it.

    Raises:
        ValueError: It is gone or damaged, and the trial has no whole one; or another algorithm saved it.
    """
    path, filesystem = locate(named)
    if Path(path).parent.parent != Path(storage.experiment_fs_path) or not _NAME.fullmatch(Path(path).name):
        return named
    try:
        check_checkpoint(path, filesystem, algorithm)
    except ValueError as problem:
        found = _newest_whole(path, filesystem, algorithm)
        if found is None:
            raise
        logger.warning("training goes on from %s, the newest whole checkpoint of its trial: %s", found, problem)
        is_own = Path(path).parent == Path(storage.trial_fs_path)
        if found > path and is_own and isinstance(filesystem, pyarrow.fs.LocalFileSystem):
            logger.warning("it is now %s, the one that Tune's state names", path)
            shutil.rmtree(path, ignore_errors=True)
            found = str(Path(found).rename(path))
        return type(named)(found, filesystem)
    return named


def _newest_whole(path: str, filesystem: pyarrow.fs.FileSystem, algorithm: type) -> str | None:
    """The path of the newest whole checkpoint in the folder of `path`; None where there is none."""
    folder = pyarrow.fs.FileSelector(str(Path(path).parent), allow_not_found=True)
    names = (info.base_name for info in filesystem.get_file_info(folder))
    for name in sorted(filter(_NAME.fullmatch, names), reverse=True):
        other = str(Path(path).with_name(name))
        try:
            check_checkpoint(other, filesystem, algorithm)
        except ValueError:
            continue
        return other
    return None
