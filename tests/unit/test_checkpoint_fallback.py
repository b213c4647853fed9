"""Which checkpoint of a trial is taken where the latest is damaged."""

from __future__ import annotations

import logging
from pathlib import Path

import pyarrow.fs
import pytest

from rllib_gigpo.algorithms.group_policy.checkpoint_fallback import last_good_checkpoint
from rllib_gigpo.algorithms.group_policy.checkpoints import write_manifest
from rllib_gigpo.algorithms.group_policy.group_policy import GroupPolicy

pytestmark = pytest.mark.unit


def checkpoint(path: Path, *, damaged: bool = False) -> str:
    path.mkdir(parents=True)
    (path / "weights").write_text("all of it")
    write_manifest(str(path), pyarrow.fs.LocalFileSystem(), GroupPolicy)
    if damaged:
        (path / "weights").write_text("half")
    return str(path)


def test_the_newest_good_one_before_a_damaged_one_is_taken(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    checkpoint(tmp_path / "checkpoint_000000")
    good = checkpoint(tmp_path / "checkpoint_000001")
    checkpoint(tmp_path / "checkpoint_000002", damaged=True)
    torn = checkpoint(tmp_path / "checkpoint_000003", damaged=True)
    later = checkpoint(tmp_path / "checkpoint_000004")
    checkpoint(tmp_path / "mine")
    assert last_good_checkpoint(good, GroupPolicy) == good
    assert last_good_checkpoint(later, GroupPolicy) == later
    with caplog.at_level(logging.WARNING):
        assert last_good_checkpoint(torn, GroupPolicy) == good
    assert "checkpoint_000003 is damaged: weights has 4 bytes instead of 9" in caplog.text
    assert "goes on from" in caplog.text


def test_without_a_good_one_the_damage_is_raised(tmp_path: Path) -> None:
    checkpoint(tmp_path / "checkpoint_000000", damaged=True)
    torn = checkpoint(tmp_path / "checkpoint_000001", damaged=True)
    checkpoint(tmp_path / "checkpoint_000002")
    with pytest.raises(ValueError, match="checkpoint_000001 is damaged"):
        last_good_checkpoint(torn, GroupPolicy)
    # A checkpoint that a user names is that one or none.
    mine = checkpoint(tmp_path / "mine", damaged=True)
    with pytest.raises(ValueError, match="mine is damaged"):
        last_good_checkpoint(mine, GroupPolicy)
