"""Which checkpoint of a trial is taken where the one that Tune names is gone or damaged."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.fs
import pytest
from ray.tune import Checkpoint

from rllib_gigpo.algorithms.group_policy.checkpoint_fallback import whole_checkpoint
from rllib_gigpo.algorithms.group_policy.checkpoints import write_manifest
from rllib_gigpo.algorithms.group_policy.group_policy import GroupPolicy

pytestmark = pytest.mark.unit

LOCAL = pyarrow.fs.LocalFileSystem()


class Remote(pyarrow.fs.SubTreeFileSystem):
    """Stands for a file system that is not this machine's."""


@pytest.fixture
def trial(tmp_path: Path) -> Path:
    """The folder of a trial of the run `tmp_path / "run"`."""
    return tmp_path / "run" / "trial"


def checkpoint(path: Path, *, damaged: bool = False) -> Path:
    path.mkdir(parents=True)
    (path / "weights").write_text(f"all of {path.name}")
    write_manifest(str(path), LOCAL, GroupPolicy)
    if damaged:
        (path / "weights").write_text("half")
    return path


def taken(named: Path, trial: Path, *, filesystem: Any = LOCAL) -> str:
    """Which one is taken, where the trial's folder is `trial`; checks that it is on the same filesystem."""
    storage: Any = SimpleNamespace(experiment_fs_path=str(trial.parent), trial_fs_path=str(trial))
    found = whole_checkpoint(Checkpoint(str(named), filesystem), storage, GroupPolicy)
    assert found.filesystem == filesystem
    return found.path


def test_a_whole_one_is_taken_whatever_is_beside_it(trial: Path) -> None:
    first, named, _ = (checkpoint(trial / f"checkpoint_{number:06d}") for number in (0, 1, 2))
    assert taken(named, trial) == str(named)
    assert taken(first, trial) == str(first)


def test_where_it_is_damaged_the_one_before_is_taken(trial: Path, caplog: pytest.LogCaptureFixture) -> None:
    checkpoint(trial / "checkpoint_000000")
    good = checkpoint(trial / "checkpoint_000001")
    checkpoint(trial / "checkpoint_000002", damaged=True)
    torn = checkpoint(trial / "checkpoint_000003", damaged=True)
    checkpoint(trial / "mine")
    with caplog.at_level(logging.WARNING):
        assert taken(torn, trial) == str(good)
    assert "checkpoint_000003 is damaged: weights has 4 bytes instead of 24" in caplog.text
    assert f"goes on from {good}" in caplog.text
    assert sorted(path.name for path in trial.iterdir())[:4] == [f"checkpoint_{number:06d}" for number in range(4)]


@pytest.mark.parametrize("left", ["nothing", "half", "an empty folder"])
def test_a_newer_one_gets_the_name_of_the_one_that_tune_had_removed(trial: Path, left: str) -> None:
    checkpoint(trial / "checkpoint_000000")
    named = checkpoint(trial / "checkpoint_000002", damaged=left == "half")
    checkpoint(trial / "checkpoint_000003")
    checkpoint(trial / "checkpoint_000004", damaged=True)
    if left != "half":
        shutil.rmtree(named)
    if left == "an empty folder":
        named.mkdir()
    assert taken(named, trial) == str(named)
    assert (named / "weights").read_text() == "all of checkpoint_000003"
    assert not (trial / "checkpoint_000003").exists()


def test_what_another_trial_or_another_machine_has_keeps_its_name(trial: Path) -> None:
    newer = checkpoint(trial / "checkpoint_000003")
    named = trial / "checkpoint_000002"
    assert taken(named, trial.parent / "another_trial") == str(newer)
    assert taken(named, trial, filesystem=Remote("/", LOCAL)) == str(newer)
    assert newer.is_dir() and not named.exists()


def test_without_a_whole_one_the_problem_is_raised(trial: Path) -> None:
    torn = checkpoint(trial / "checkpoint_000001", damaged=True)
    with pytest.raises(ValueError, match="checkpoint_000001 is damaged"):
        taken(torn, trial)
    with pytest.raises(ValueError, match=r"there is no checkpoint at .*checkpoint_000002"):
        taken(trial / "checkpoint_000002", trial)
    with pytest.raises(ValueError, match="there is no checkpoint"):
        taken(trial.parent / "not_begun" / "checkpoint_000000", trial.parent / "not_begun")


def test_one_that_a_user_names_is_that_one_or_none(trial: Path) -> None:
    checkpoint(trial / "checkpoint_000000")
    gone, mine = trial / "checkpoint_000001", trial / "mine"
    assert taken(mine, trial) == str(mine)
    # Tune asks in another run for it.
    assert taken(gone, trial.parent.parent / "later_run" / "trial") == str(gone)
