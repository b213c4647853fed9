"""A run by Ray Tune: trials over a search space, checkpoints during the run, retries, continuing a killed run."""

from __future__ import annotations

import inspect
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ray import tune
from rich.console import Console

from rllib_gigpo.cli.experiment import Checkpoints, Experiment
from rllib_gigpo.cli.progress import COLUMNS, cells
from rllib_gigpo.cli.run_folder import checkpoint_text, new_run_dir, run_dirs
from rllib_gigpo.cli.search_space import point_text
from rllib_gigpo.cli.stop import StopWhenReached
from rllib_gigpo.cli.sweep_state import KeepsState, check_state, restore_state
from rllib_gigpo.cli.trials import TrialOutcome, best_trial, trials_table
from rllib_gigpo.cli.waiting import waiting
from rllib_gigpo.report.trajectory_samples import TrajectorySamples

if TYPE_CHECKING:
    from ray.tune.experiment import Trial

TRIALS_FILE = "trials.json"


class FailedTrialsError(RuntimeError):
    """Trials ended with an error."""


class TuneRun:
    """A run in its own folder, `<storage_path>/<name>-<time>/`, with a folder for each trial and trials.json."""

    def __init__(self, experiment: Experiment, *, console: Console, resume: bool = False) -> None:
        """Starts and writes nothing. `resume` continues the newest run of that name.

        Raises:
            ValueError: There is no run to resume, or nothing is known of its trials, or the scheduler is unknown.
        """
        self._experiment = experiment
        self._console = console
        self._resumed_dir = _newest_run_dir(experiment) if resume else None
        self._scheduler = _scheduler(experiment)
        self._stop = StopWhenReached(dict(experiment.stop), experiment.metric)

    def run(self) -> Path:
        """Trains; Ray is running. Returns the absolute path of trials.json.

        Raises:
            FailedTrialsError: A trial failed; trials.json is there and tells which.
            UnknownResultKeyError: The first result shows that a stop key or the metric does not exist.
        """
        run_dir = self._resumed_dir or new_run_dir(self._experiment.storage_path, self._experiment.name)
        self._note(f"{self._experiment.config.algo_class.__name__} by Tune, run folder {run_dir}")
        _TrialProgress.console = self._console
        with waiting("trials by Tune", console=self._console):
            results = self._tuner(run_dir).fit()
        if self._stop.error is not None:
            raise self._stop.error
        trials = sorted((TrialOutcome.from_result(found, self._experiment) for found in results), key=lambda t: t.name)
        best = best_trial(trials, self._experiment.mode)
        self._report(trials, best)
        path = run_dir / TRIALS_FILE
        path.write_text(json.dumps(self._summary(trials, best), indent=2, default=float) + "\n")
        failed = [trial for trial in trials if trial.error is not None]
        if failed:
            raise FailedTrialsError(
                f"{len(failed)} of {len(trials)} trials failed, the first with: {failed[0].error} (more in "
                f"{run_dir / failed[0].name})"
            )
        return path

    def _tuner(self, run_dir: Path) -> tune.Tuner:
        experiment = self._experiment
        if self._resumed_dir is not None:
            restore_state(run_dir)
            return tune.Tuner.restore(
                str(run_dir), trainable=experiment.config.algo_class, resume_unfinished=True, resume_errored=True
            )
        by_metric = {"metric": experiment.metric, "mode": experiment.mode} if self._scheduler is not None else {}
        return tune.Tuner(
            experiment.config.algo_class,
            param_space=experiment.config,
            tune_config=tune.TuneConfig(
                num_samples=experiment.num_samples,
                scheduler=self._scheduler,
                # Tune's own names hold the parameters with four decimals, where learning rates are zero.
                trial_dirname_creator=str,
                **by_metric,
            ),
            run_config=tune.RunConfig(
                name=run_dir.name,
                storage_path=str(run_dir.parent),
                stop=self._stop,
                checkpoint_config=_checkpoint_config(experiment.checkpoints),
                failure_config=tune.FailureConfig(max_failures=experiment.max_failures),
                callbacks=self._callbacks(run_dir),
                verbose=0,
            ),
            # Goes to `tune.run`, which starts every trial from that checkpoint.
            _tuner_kwargs=_restore(experiment),
        )

    def _callbacks(self, run_dir: Path) -> list[Any]:
        return [_TrialProgress(), TrajectorySamples(), KeepsState(), *self._experiment.tracking.callbacks(run_dir.name)]

    def _report(self, trials: Sequence[TrialOutcome], best: TrialOutcome | None) -> None:
        self._console.print(trials_table(trials, self._experiment.metric))
        if best is not None:
            texts = [best.name, best.parameters, f"{best.score:.4g}"]
            self._note(f"best by {self._experiment.metric}: {', '.join(text for text in texts if text)}")
        kept = [checkpoint for trial in trials for checkpoint in trial.checkpoints]
        self._note(checkpoint_text(kept, best=_best_checkpoint(best)))

    def _summary(self, trials: Sequence[TrialOutcome], best: TrialOutcome | None) -> dict[str, Any]:
        return {
            "algorithm": self._experiment.config.algo_class.__name__,
            "metric": self._experiment.metric,
            "mode": self._experiment.mode,
            "best": None if best is None else best.name,
            "best_checkpoint": _best_checkpoint(best),
            "trials": [trial.to_json() for trial in trials],
        }

    def _note(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)


def _best_checkpoint(best: TrialOutcome | None) -> str | None:
    """The last checkpoint of the best trial."""
    return best.checkpoints[-1] if best is not None and best.checkpoints else None


class _TrialProgress(tune.Callback):
    """One line for each result of each trial.

    Attributes:
        console: Where to. Of the class: Tune pickles its callbacks, and a resumed run may print elsewhere.
    """

    console: ClassVar[Console] = Console()

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        point = point_text({(name,): value for name, value in trial.evaluated_params.items()})
        texts = [f"{column.heading} {cell}" for column, cell in zip(COLUMNS, cells(result), strict=True)]
        line = "  ".join([str(trial), *([point] if point else []), *texts])
        self.console.print(line, highlight=False, markup=False, soft_wrap=True)


def _newest_run_dir(experiment: Experiment) -> Path:
    found = [path for path in run_dirs(experiment.storage_path, experiment.name) if (path / "tuner.pkl").is_file()]
    if not found:
        raise ValueError(
            f"nothing to resume: no run of Tune named {experiment.name!r} in {experiment.storage_path.absolute()}. "
            f"Only a run by Tune that saves checkpoints can be resumed: start it with --checkpoint-freq. Any other is "
            f"continued from a checkpoint of it, with --restore"
        )
    check_state(found[-1])
    return found[-1]


def _scheduler(experiment: Experiment) -> Any:
    """Tune's scheduler, None for the one that does nothing. Raises ValueError for a wrong name or argument."""
    if experiment.scheduler.lower() == "fifo":
        return None
    arguments = experiment.scheduler_config
    if "metric" in arguments or "mode" in arguments:
        raise ValueError("--scheduler-config has metric or mode; they are --metric and --mode")
    try:
        scheduler = tune.create_scheduler(experiment.scheduler, **arguments)
    except (ValueError, TypeError, AssertionError, tune.TuneError) as error:
        raise ValueError(f"--scheduler {experiment.scheduler}: {error}") from error
    # Tune drops the arguments that it does not know.
    known = inspect.signature(type(scheduler)).parameters
    unknown = [name for name in arguments if name not in known]
    if unknown:
        raise ValueError(
            f"--scheduler-config: {experiment.scheduler} has no argument {unknown[0]!r}; it has {', '.join(known)}"
        )
    return scheduler


def _checkpoint_config(checkpoints: Checkpoints) -> tune.CheckpointConfig:
    return tune.CheckpointConfig(
        num_to_keep=checkpoints.num_to_keep,
        checkpoint_score_attribute=checkpoints.score_attribute,
        checkpoint_score_order=checkpoints.score_order,
        checkpoint_frequency=checkpoints.frequency,
        checkpoint_at_end=checkpoints.at_end,
    )


def _restore(experiment: Experiment) -> dict[str, Any]:
    return {} if experiment.restore is None else {"restore": str(experiment.restore.absolute())}
