"""One training run: evaluate, train until the stop, evaluate, save, summarize."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import typer
from rich.console import Console

from rllib_gigpo.cli.errors import INTERRUPTED_EXIT_CODE
from rllib_gigpo.cli.experiment import Experiment
from rllib_gigpo.cli.kept_checkpoints import KeptCheckpoints
from rllib_gigpo.cli.progress import Progress, numbers
from rllib_gigpo.cli.run_folder import checkpoint_text, new_run_dir
from rllib_gigpo.cli.run_logs import RunLogs
from rllib_gigpo.cli.stop import reached
from rllib_gigpo.cli.waiting import waiting
from rllib_gigpo.report.record_files import RECORDS_FOLDER
from rllib_gigpo.report.run_data import SUMMARY_FILE
from rllib_gigpo.report.trajectory_recorder import TrajectoryRecorder

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm import Algorithm


class TrainRun:
    """A run in this process and in its own folder, `<storage_path>/<name>-<time>/`.

    The folder holds summary.json, checkpoint/, with `--keep-best` checkpoint_<iteration>/ and best_checkpoint.json,
    trajectories/, TensorBoard's events, progress.csv, result.json and params.json.
    """

    def __init__(self, experiment: Experiment, *, console: Console) -> None:
        """Starts and writes nothing. The experiment's config is a checked one without search spaces."""
        self._experiment = experiment
        self._console = console

    def run(self) -> Path:
        """Trains; Ray is running. Returns the absolute path of summary.json.

        Raises:
            typer.Exit: Training was interrupted (Ctrl-C); a checkpoint of what had been learned was saved.
        """
        run_dir = new_run_dir(self._experiment.storage_path, self._experiment.name)
        # As in the actor that Tune would run this in: Ray gives an actor as many threads as it has CPUs. More threads
        # than idle cores make a small model many times slower.
        torch.set_num_threads(max(1, int(self._experiment.config.num_cpus_for_main_process)))
        with self._waiting("loading the model, starting learners and engine"):
            algo = self._experiment.config.build_algo()
        if isinstance(recorder := getattr(algo, "recorder", None), TrajectoryRecorder):
            recorder.folder = run_dir / RECORDS_FOLDER
        try:
            if self._experiment.restore is not None:
                with self._waiting("restoring the checkpoint"):
                    algo.restore_from_path(str(self._experiment.restore.absolute()))
                self._note(f"restored {self._experiment.restore}, iteration {algo.iteration}")
            summary = self._train(algo, run_dir)
        finally:
            algo.stop()
            # RLlib makes a folder of its own for every Algorithm and puts nothing into it.
            with suppress(OSError):
                Path(algo.logdir).rmdir()
        path = run_dir / SUMMARY_FILE
        path.write_text(json.dumps(summary, indent=2) + "\n")
        return path

    def _train(self, algo: Algorithm, run_dir: Path) -> dict[str, Any]:
        algorithm, env = type(algo).__name__, str(self._experiment.config.env)
        self._note(f"{algorithm} on {env}, run folder {run_dir}")
        before = self._evaluate(algo)
        self._note(f"before training: {_panel_text(before)}")
        start = time.perf_counter()
        try:
            result, best = self._train_until_stop(algo, run_dir)
            seconds = time.perf_counter() - start
            after = self._evaluate(algo)
        except KeyboardInterrupt:
            self._note(f"interrupted after {algo.iteration} iterations; saving")
            self._save(algo, run_dir)
            raise typer.Exit(INTERRUPTED_EXIT_CODE) from None
        iterations = int(result["training_iteration"])
        self._note(f"after {iterations} iteration{'s' * (iterations != 1)}, {seconds:.0f} s: {_panel_text(after)}")
        if before["panel_hash"] != after["panel_hash"]:
            # Not an error: the training is done, and a task that failed in one of the two evaluations is enough.
            self._note(
                f"the evaluation panel changed during training: hash {before['panel_hash']} before, "
                f"{after['panel_hash']} after; the two success rates cannot be compared. The warnings above name the "
                "tasks that could not be played."
            )
        checkpoint = self._save(algo, run_dir)
        return {
            "algorithm": algorithm,
            "env": env,
            "panel_size": after["panel_size"],
            "panel_hash": after["panel_hash"],
            "success_before": before["success_rate"],
            "success_after": after["success_rate"],
            "iterations": iterations,
            "metrics": numbers(result),
            "seconds_train": round(seconds, 3),
            "checkpoint": checkpoint,
            "best_checkpoint": best,
            "tensorboard": str(run_dir),
        }

    def _train_until_stop(self, algo: Algorithm, run_dir: Path) -> tuple[Mapping[str, Any], str | None]:
        """Trains until the stop is reached. Returns the last result, and with `--keep-best` the best checkpoint."""
        experiment = self._experiment
        kept = None
        if experiment.checkpoints.best_by is not None:
            kept = KeptCheckpoints(run_dir, experiment.checkpoints, restored=experiment.restore)
        with Progress(self._console) as progress, RunLogs(run_dir, experiment.config.to_dict()) as logs:
            while True:
                result = algo.train()
                progress.show(result)
                logs.log(result)
                if kept is not None:
                    kept.after_iteration(algo, result)
                if reached(experiment.stop, result):
                    return result, None if kept is None else kept.best

    def _save(self, algo: Algorithm, run_dir: Path) -> str:
        """Saves a checkpoint and says where. Returns its path."""
        with self._waiting("saving the checkpoint"):
            checkpoint = str(algo.save_to_path(str(run_dir / "checkpoint")))
        self._note(checkpoint_text([checkpoint]))
        return checkpoint

    def _evaluate(self, algo: Algorithm) -> dict[str, Any]:
        """The panel's numbers: success_rate, panel_size, panel_hash. None for what the algorithm does not report."""
        with self._waiting("playing the evaluation panel"):
            numbers = algo.evaluate()["env_runners"]
        success, size = numbers.get("success_rate"), numbers.get("panel_size")
        return {
            "success_rate": None if success is None else float(success),
            "panel_size": None if size is None else int(size),
            "panel_hash": numbers.get("panel_hash"),
        }

    def _waiting(self, text: str) -> AbstractContextManager[None]:
        return waiting(text, console=self._console)

    def _note(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)


def _panel_text(panel: Mapping[str, Any]) -> str:
    if panel["success_rate"] is None:
        return "no success rate reported"
    return f"success {panel['success_rate']:.3f} on the panel of {panel['panel_size']} tasks"
