"""Which checkpoints a run in the command's own process keeps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rllib_gigpo.cli.experiment import Checkpoints
from rllib_gigpo.cli.kept_checkpoints import KeptCheckpoints
from rllib_gigpo.cli.stop import UnknownResultKeyError

pytestmark = pytest.mark.unit

KEY = "evaluation/env_runners/success_rate"


class SavesAFolder:
    """In the place of an algorithm."""

    def save_to_path(self, path: str) -> str:
        Path(path).mkdir()
        return path


def train(kept: KeptCheckpoints, scores: dict[int, float | None]) -> None:
    for iteration, score in scores.items():
        evaluation = {} if score is None else {"evaluation": {"env_runners": {"success_rate": score}}}
        kept.after_iteration(SavesAFolder(), {"training_iteration": iteration} | evaluation)  # type: ignore[arg-type]


def kept_in(folder: Path) -> list[int]:
    return sorted(int(path.name.removeprefix("checkpoint_")) for path in folder.glob("checkpoint_*"))


def best_of(folder: Path) -> tuple[str, float]:
    best = json.loads((folder / "best_checkpoint.json").read_text())
    return Path(best["checkpoint"]).name, best["score"]


def test_the_latest_and_the_best_are_kept(tmp_path: Path) -> None:
    kept = KeptCheckpoints(tmp_path, Checkpoints(frequency=2, num_to_keep=2, best_by=KEY))
    train(kept, {1: None, 2: 0.2, 3: 0.7, 4: float("nan"), 5: 0.7, 6: 0.1, 7: None, 8: 0.3})
    # 3 is best: an equal score is no better one.
    assert kept_in(tmp_path) == [3, 6, 8]
    assert best_of(tmp_path) == ("checkpoint_000003", 0.7)
    train(kept, {9: 0.8, 10: 0.9, 11: 0.5})
    assert kept_in(tmp_path) == [8, 10]
    train(kept, {12: 0.5, 14: 0.5, 16: 0.5})
    assert kept_in(tmp_path) == [10, 14, 16]


def test_a_score_may_be_any_number_of_numpy(tmp_path: Path) -> None:
    kept = KeptCheckpoints(tmp_path, Checkpoints(best_by=KEY))
    train(kept, {1: np.int64(2), 2: np.float32(2.5), 3: np.float32("nan")})  # type: ignore[dict-item]
    assert best_of(tmp_path) == ("checkpoint_000002", 2.5)


def test_the_least_may_be_the_best_and_all_may_be_kept(tmp_path: Path) -> None:
    kept = KeptCheckpoints(tmp_path, Checkpoints(frequency=1, best_by=KEY, best_order="min"))
    train(kept, {1: 0.5, 2: 0.4, 3: 0.6})
    assert kept_in(tmp_path) == [1, 2, 3]
    assert best_of(tmp_path) == ("checkpoint_000002", 0.4)


def test_a_resumed_run_knows_the_best_of_the_moment_it_goes_on_from(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    checkpoints = Checkpoints(frequency=2, best_by=KEY)
    train(KeptCheckpoints(first, checkpoints), {1: 0.5, 2: 0.4, 3: 0.9})
    resumed = KeptCheckpoints(second, checkpoints, restored=first / "checkpoint_000002")
    train(resumed, {3: 0.3, 4: 0.4})
    assert kept_in(second) == [4]
    assert best_of(second) == ("checkpoint_000001", 0.5)
    train(resumed, {5: 0.6})
    assert kept_in(second) == [4, 5]
    # What belongs to the run before stays as that left it.
    assert kept_in(first) == [2, 3]


def test_a_key_that_is_not_in_the_results_is_named(tmp_path: Path) -> None:
    kept = KeptCheckpoints(tmp_path, Checkpoints(best_by="env_runners/sucess_rate"))
    result: dict[str, Any] = {"training_iteration": 1, "env_runners": {"success_rate": 1.0}}
    with pytest.raises(UnknownResultKeyError, match="--keep-best 'env_runners/sucess_rate' is not in the train result"):
        kept.after_iteration(SavesAFolder(), result)  # type: ignore[arg-type]
