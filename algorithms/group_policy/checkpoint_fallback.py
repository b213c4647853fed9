"""Which checkpoint Tune goes on from when the latest one is damaged: the last good one beside it."""

from __future__ import annotations

import logging
import re
from pathlib import Path

from rllib_gigpo.algorithms.group_policy.checkpoints import check_checkpoint, locate

logger = logging.getLogger(__name__)

# As Tune names the checkpoints of a trial, in its folder.
_NAME = re.compile(r"checkpoint_\d{6}")


def last_good_checkpoint(path: str, algorithm: type) -> str:
    """`path`, or, where that is a damaged checkpoint in a trial's local folder, the newest good one before it.

    Tune would try the damaged one again and again.

    Raises:
        ValueError: The checkpoint is damaged, and there is no good one before it; or another algorithm saved it.
    """
    try:
        check_checkpoint(*locate(path, None), algorithm)
    except ValueError as damage:
        for earlier in _earlier(Path(path)):
            try:
                check_checkpoint(*locate(str(earlier), None), algorithm)
            except ValueError:
                continue
            logger.warning("%s; training goes on from %s, the last good one", damage, earlier)
            return str(earlier)
        raise
    return path


def _earlier(checkpoint: Path) -> list[Path]:
    """The checkpoints of the same trial before this one, the newest first."""
    if not _NAME.fullmatch(checkpoint.name):
        return []
    names = [path for path in checkpoint.parent.iterdir() if _NAME.fullmatch(path.name)]
    return sorted((path for path in names if path.name < checkpoint.name), reverse=True)
