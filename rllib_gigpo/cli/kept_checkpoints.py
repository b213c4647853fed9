"""Checkpoints of a run in the command's own process: the latest ones, and the best."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rllib_gigpo.cli.experiment import Checkpoints
from rllib_gigpo.cli.stop import checked_value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ray.rllib.algorithms.algorithm import Algorithm

# Beside the checkpoints, and in each of them as of when it was saved: which one is the best.
BEST_FILE = "best_checkpoint.json"


@dataclass(frozen=True)
class Best:
    """The best checkpoint so far.

    Attributes:
        checkpoint: Its absolute path. One of an earlier run, which this one goes on from, may be gone.
        key: Result key of the score.
        score: What it was.
        iteration: Of which result.
    """

    checkpoint: str
    key: str
    score: float
    iteration: int


class KeptCheckpoints:
    """Saves every `frequency` iterations, and whenever the score is better than ever; removes all but the latest
    `num_to_keep` and the best.

    Args:
        folder: Where to save, `checkpoint_<iteration>` each.
        checkpoints: When, and by which score; `best_by` is set.
        restored: The checkpoint that the run goes on from: a score must be better than the best until then, too.
    """

    def __init__(self, folder: Path, checkpoints: Checkpoints, *, restored: Path | None = None) -> None:
        assert checkpoints.best_by is not None
        self._folder = folder
        self._checkpoints = checkpoints
        self._key = checkpoints.best_by
        self._saved: list[Path] = []  # at the frequency, oldest first
        self._best = None if restored is None else _read(restored / BEST_FILE, self._key)

    @property
    def best(self) -> str | None:
        """Absolute path of the best checkpoint; None before there is one."""
        return None if self._best is None else self._best.checkpoint

    def after_iteration(self, algo: Algorithm, result: Mapping[str, Any]) -> None:
        """Saves, and removes what is not kept any more.

        Raises:
            UnknownResultKeyError: The score's key is not in the result.
        """
        iteration = int(result["training_iteration"])
        score = checked_value(result, self._key, "--keep-best")
        is_due = self._checkpoints.frequency > 0 and iteration % self._checkpoints.frequency == 0
        is_best = self._is_better(score)
        if not is_due and not is_best:
            return
        path = self._folder / f"checkpoint_{iteration:06d}"
        best = Best(str(path), self._key, float(score), iteration) if is_best else self._best
        algo.save_to_path(str(path))
        self._write(path / BEST_FILE, best)
        # Only now that it is whole may the one before go.
        self._write(self._folder / BEST_FILE, best)
        previous, self._best = self._best, best
        if is_due:
            self._saved.append(path)
        self._remove_others(previous)

    def _is_better(self, score: Any) -> bool:
        if score is None or math.isnan(score):
            return False
        if self._best is None:
            return True
        return score > self._best.score if self._checkpoints.best_order == "max" else score < self._best.score

    def _remove_others(self, previous: Best | None) -> None:
        kept = self._checkpoints.num_to_keep
        removed = [] if kept is None else self._saved[:-kept]
        self._saved = self._saved if kept is None else self._saved[-kept:]
        # What only was the best; a run that this one goes on from keeps its own.
        if previous is not None and previous != self._best and Path(previous.checkpoint).parent == self._folder:
            removed.append(Path(previous.checkpoint))
        for path in removed:
            if path not in self._saved and (self._best is None or str(path) != self._best.checkpoint):
                shutil.rmtree(path, ignore_errors=True)

    @staticmethod
    def _write(file: Path, best: Best | None) -> None:
        if best is not None:
            new = file.with_name(f".{file.name}.new")
            new.write_text(json.dumps(asdict(best), indent=1) + "\n")
            new.replace(file)


def _read(file: Path, key: str) -> Best | None:
    """What a checkpoint says is the best; None where it says nothing, or the best by another key."""
    if not file.is_file():
        return None
    best = Best(**json.loads(file.read_text()))
    return best if best.key == key else None
