"""State and logs of a sweep survive a process that is killed while Tune copies them."""

from __future__ import annotations

import json
import pickle
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rllib_gigpo.cli.sweep_state import STATE_FILE, KeepsState, check_state, restore_state

pytestmark = pytest.mark.unit

STATE = "experiment_state-2026-01-01_00-00-00.json"
SEARCH = "basic-variant-state-2026-01-01_00-00-00.json"


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Where Tune writes its state, and the run's folder that it copies it to."""
    staging, run_dir = tmp_path / "staging", tmp_path / "run"
    staging.mkdir()
    run_dir.mkdir()
    return staging, run_dir


def trials(staging: Path, run_dir: Path) -> list[Any]:
    storage = SimpleNamespace(experiment_driver_staging_path=str(staging), experiment_fs_path=str(run_dir))
    return [SimpleNamespace(storage=storage)]


def test_half_a_file_is_replaced_by_what_was_kept(folders: tuple[Path, Path]) -> None:
    staging, run_dir = folders
    keeps = KeepsState()
    keeps.on_step_end(0, [])  # before there is a trial
    for step in (1, 2):
        (staging / STATE).write_text(json.dumps({"step": step}))
        (staging / SEARCH).write_bytes(b"search %d" % step)
        keeps.on_step_end(step, trials(staging, run_dir))
    # Killed while it was copied, and after a later session had begun to write.
    (run_dir / STATE).write_text('{"st')
    (run_dir / STATE.replace("2026", "2027")).write_text("")
    (run_dir / "tuner.pkl").write_text("stays")
    check_state(run_dir)
    restore_state(run_dir)
    assert json.loads((run_dir / STATE).read_text()) == {"step": 2}
    assert (run_dir / SEARCH).read_bytes() == b"search 2"
    assert sorted(path.name for path in run_dir.iterdir()) == sorted([STATE, SEARCH, STATE_FILE, "tuner.pkl"])


def test_a_whole_state_is_newer_than_what_was_kept_and_stays(folders: tuple[Path, Path]) -> None:
    staging, run_dir = folders
    for name, content in ((STATE, b'{"step": 1}'), (SEARCH, pickle.dumps(1))):
        (staging / name).write_bytes(content)
    KeepsState().on_step_end(1, trials(staging, run_dir))
    (run_dir / STATE).write_text('{"step": 2}')
    (run_dir / SEARCH).write_bytes(pickle.dumps(2))
    restore_state(run_dir)
    assert json.loads((run_dir / STATE).read_text()) == {"step": 2}
    assert (run_dir / SEARCH).read_bytes() == pickle.dumps(2)
    # Half of the other part: what was kept goes together.
    (run_dir / SEARCH).write_bytes(pickle.dumps(2)[:-1])
    restore_state(run_dir)
    assert json.loads((run_dir / STATE).read_text()) == {"step": 1}
    assert (run_dir / SEARCH).read_bytes() == pickle.dumps(1)


def test_what_has_not_changed_is_not_written_again(folders: tuple[Path, Path]) -> None:
    staging, run_dir = folders
    keeps = KeepsState()
    (staging / STATE).write_text("{}")
    keeps.on_step_end(1, trials(staging, run_dir))
    (run_dir / STATE_FILE).unlink()
    keeps.on_step_end(2, trials(staging, run_dir))
    assert not (run_dir / STATE_FILE).exists()


RESULTS = b'{"training_iteration": 1}\n{"training_iteration": 2}\n'


@pytest.mark.parametrize(
    ("left", "staged", "mended"),
    [
        (b"", RESULTS, RESULTS),  # killed between opening the file and writing to it
        (RESULTS[:40], RESULTS, RESULTS),
        # Killed while the last line was written: Tune would append to it.
        (b"", RESULTS[:-5], RESULTS[:26]),
        (RESULTS[:-5], None, RESULTS[:26]),
        (b"", None, b""),
        # The folder was lost, and begun anew.
        (RESULTS[:-5], RESULTS[:10], RESULTS[:26]),
        # Whole, and as old as the state: what has come since is trained again.
        (RESULTS[:26], RESULTS, RESULTS[:26]),
    ],
)
@pytest.mark.parametrize("log", ["result.json", "progress.csv"])
def test_a_log_that_was_cut_off_is_taken_from_where_tune_copied_it_from(
    folders: tuple[Path, Path], log: str, left: bytes, staged: bytes | None, mended: bytes
) -> None:
    staging, run_dir = folders
    for folder, content in ((staging, staged), (run_dir, left)):
        (folder / "trial").mkdir()
        if content is not None:
            (folder / "trial" / log).write_bytes(content)
    (staging / STATE).write_text("{}")
    KeepsState().on_step_end(1, trials(staging, run_dir))
    restore_state(run_dir)
    assert (run_dir / "trial" / log).read_bytes() == mended
    assert [path.name for path in (run_dir / "trial").iterdir()] == [log]


def test_a_state_that_an_earlier_version_has_kept_is_restored(folders: tuple[Path, Path]) -> None:
    _, run_dir = folders
    with zipfile.ZipFile(run_dir / STATE_FILE, "w") as file:
        file.writestr(STATE, "{}")
    (run_dir / "trial").mkdir()
    (run_dir / "trial" / "result.json").write_bytes(RESULTS[:-5])
    restore_state(run_dir)
    assert (run_dir / STATE).read_text() == "{}"
    assert (run_dir / "trial" / "result.json").read_bytes() == RESULTS[:26]


def test_other_files_of_a_trial_are_mended_where_they_are_shorter(folders: tuple[Path, Path]) -> None:
    staging, run_dir = folders
    for folder, content in ((staging, '{"lr": 1}'), (run_dir, "")):
        (folder / "trial" / "checkpoint_000000").mkdir(parents=True)
        (folder / "trial" / "params.json").write_text(content)
    (run_dir / "trial" / "error.txt").write_text("of an earlier session")
    (staging / STATE).write_text("{}")
    KeepsState().on_step_end(1, trials(staging, run_dir))
    restore_state(run_dir)
    assert (run_dir / "trial" / "params.json").read_text() == '{"lr": 1}'
    assert (run_dir / "trial" / "error.txt").read_text() == "of an earlier session"


@pytest.mark.parametrize("left", [None, "", '{"trial_data": ['])
def test_a_run_of_which_nothing_is_known_cannot_be_resumed(folders: tuple[Path, Path], left: str | None) -> None:
    _, run_dir = folders
    if left is not None:
        (run_dir / STATE).write_text(left)
    with pytest.raises(ValueError, match="cannot be resumed: it ended before Tune had written down"):
        check_state(run_dir)


def test_a_whole_state_of_tune_does_without_a_copy(folders: tuple[Path, Path]) -> None:
    _, run_dir = folders
    (run_dir / STATE).write_text("{}")
    check_state(run_dir)
    restore_state(run_dir)
    assert (run_dir / STATE).read_text() == "{}"
