"""One training run: evaluate, train until the stop, evaluate, save, summarize."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray
from rich.console import Console

from rllib_gigpo.cli.config_file import LoadedConfig
from rllib_gigpo.cli.progress import Progress, value_at
from rllib_gigpo.cli.quiet_ray import start_ray
from rllib_gigpo.cli.run_logs import RunLogs

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm import Algorithm

SUMMARY_FILE = "summary.json"


class TrainRun:
    """A run in its own folder, `<storage_path>/<config name>-<time>/`.

    The folder holds summary.json, checkpoint/, TensorBoard's events, progress.csv, result.json and params.json.
    """

    def __init__(self, loaded: LoadedConfig, storage_path: Path, *, console: Console, verbose: bool = False) -> None:
        """Checks the config; starts and writes nothing. Raises what `config.validate()` raises."""
        loaded.config.validate()
        self._loaded = loaded
        self._storage_path = storage_path
        self._console = console
        self._verbose = verbose

    def run(self) -> Path:
        """Trains. Returns the absolute path of summary.json."""
        config = self._loaded.config
        run_dir = _new_run_dir(self._storage_path, self._loaded.name)
        start_ray(_cpus_needed(config), self._verbose)
        algo = config.build_algo()
        try:
            summary = self._train(algo, run_dir)
        finally:
            algo.stop()
            # RLlib makes a folder of its own for every Algorithm and puts nothing into it.
            with suppress(OSError):
                Path(algo.logdir).rmdir()
            ray.shutdown()
        path = run_dir / SUMMARY_FILE
        path.write_text(json.dumps(summary, indent=2) + "\n")
        return path

    def _train(self, algo: Algorithm, run_dir: Path) -> dict[str, Any]:
        algorithm, env = type(algo).__name__, str(self._loaded.config.env)
        self._note(f"{algorithm} on {env}, run folder {run_dir}")
        before = _evaluate(algo)
        self._note(f"before training: {_panel_text(before)}")
        start = time.perf_counter()
        iterations = self._train_until_stop(algo, run_dir)
        seconds = time.perf_counter() - start
        after = _evaluate(algo)
        if before["panel_hash"] != after["panel_hash"]:
            raise RuntimeError(
                f"the evaluation panel changed during training: hash {before['panel_hash']} before, "
                f"{after['panel_hash']} after; the two success rates cannot be compared"
            )
        self._note(f"after {iterations} iterations, {seconds:.0f} s: {_panel_text(after)}")
        return {
            "algorithm": algorithm,
            "env": env,
            "panel_size": after["panel_size"],
            "panel_hash": after["panel_hash"],
            "success_before": before["success_rate"],
            "success_after": after["success_rate"],
            "iterations": iterations,
            "seconds_train": round(seconds, 3),
            "checkpoint": str(algo.save_to_path(str(run_dir / "checkpoint"))),
            "tensorboard": str(run_dir),
        }

    def _train_until_stop(self, algo: Algorithm, run_dir: Path) -> int:
        """Trains until the stop is reached. Returns the number of iterations."""
        with Progress(self._console) as progress, RunLogs(run_dir, self._loaded.config.to_dict()) as logs:
            while True:
                result = algo.train()
                progress.show(result)
                logs.log(result)
                if reached(self._loaded.stop, result):
                    return int(result["training_iteration"])

    def _note(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)


def reached(stop: Mapping[str, float], result: Mapping[str, Any]) -> bool:
    """Whether a number of the result is at or over its value in `stop`.

    Raises:
        ValueError: A key of `stop` is not in the result. Keys under "evaluation/" may be missing: not every iteration
            evaluates.
    """
    for key, value in stop.items():
        current = value_at(result, key)
        if current is None and not key.startswith("evaluation/"):
            raise ValueError(
                f"stop key {key!r} is not in the train result, so training would never end; nested keys are written "
                f"like 'env_runners/success_rate', and these are there: {', '.join(sorted(map(str, result)))}"
            )
        if current is not None and current >= value:
            return True
    return False


def _evaluate(algo: Algorithm) -> dict[str, Any]:
    """The panel's numbers: success_rate, panel_size, panel_hash. None for what the algorithm does not report."""
    numbers = algo.evaluate()["env_runners"]
    success, size = numbers.get("success_rate"), numbers.get("panel_size")
    return {
        "success_rate": None if success is None else float(success),
        "panel_size": None if size is None else int(size),
        "panel_hash": numbers.get("panel_hash"),
    }


def _panel_text(panel: Mapping[str, Any]) -> str:
    if panel["success_rate"] is None:
        return "no success rate reported"
    return f"success {panel['success_rate']:.3f} on the panel of {panel['panel_size']} tasks"


def _new_run_dir(storage_path: Path, name: str) -> Path:
    """A new folder for the run, absolute; two runs of one second do not share it."""
    stamp = datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
    base = storage_path.absolute() / f"{name}-{stamp}"
    run_dir, count = base, 1
    while True:
        try:
            run_dir.mkdir(parents=True)
            return run_dir
        except FileExistsError:
            count += 1
            run_dir = base.with_name(f"{base.name}-{count}")


def _cpus_needed(config: Any) -> int:
    """Logical CPUs of the Algorithm with all its runners and learners."""
    request = config.algo_class.default_resource_request(config.to_dict())  # as Tune asks it
    return int(request.required_resources.get("CPU", 1))
