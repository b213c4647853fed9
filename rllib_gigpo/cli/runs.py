"""Checks experiments, then starts Ray once and trains them one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from rllib_gigpo.cli.checkpoint import check_restorable
from rllib_gigpo.cli.experiment import Experiment
from rllib_gigpo.cli.experiment_mapping import with_model_path
from rllib_gigpo.cli.ray_session import MissingResourcesError, RayOptions, ray_session
from rllib_gigpo.cli.run_folder import check_storage_path
from rllib_gigpo.cli.search_space import checked_variants
from rllib_gigpo.cli.stop import OF_EVALUATIONS, UnknownResultKeyError
from rllib_gigpo.cli.train_run import TrainRun
from rllib_gigpo.cli.tune_run import TuneRun

if TYPE_CHECKING:
    from rllib_gigpo.cli.train_options import TrainOptions


class Runs:
    """Experiments that passed every check that needs no Ray."""

    # What only a running Ray, or a first result, shows to be wrong.
    bad_input = (MissingResourcesError, UnknownResultKeyError)

    def __init__(self, experiments: Sequence[Experiment], options: TrainOptions) -> None:
        """Makes the storage paths.

        Raises:
            ValueError: A wrong config, in any point of a grid, a checkpoint that cannot be restored, or a storage path
                that cannot be written to.
        """
        self._verbose = options.verbose
        self._ray_options = RayOptions(
            address=options.ray_address,
            num_cpus=options.ray_num_cpus,
            num_gpus=options.ray_num_gpus,
            object_store_memory=options.ray_object_store_memory,
        )
        experiments = [replace(found, config=with_model_path(found.config)) for found in experiments]
        self._configs = [variant for found in experiments for variant in checked_variants(found.config)]
        for experiment in experiments:
            if experiment.restore is not None:
                check_restorable(experiment.restore, experiment.config.algo_class)
            _check_evaluates(experiment)
        by_tune = options.resume or options.ray_address is not None
        for experiment in experiments:
            if experiment.checkpoints.best_by is not None and (by_tune or experiment.needs_tune()):
                raise ValueError(
                    f"--keep-best {experiment.checkpoints.best_by} is of one training in the command's own process, "
                    "and what else is asked for takes Tune, which keeps the best --keep-checkpoints-num checkpoints by "
                    "--checkpoint-score-attr, and the latest"
                )
        console = Console(quiet=options.quiet, stderr=options.as_json)
        self._runs: list[TrainRun | TuneRun] = [
            TuneRun(experiment, console=console, resume=options.resume)
            if by_tune or experiment.needs_tune()
            else TrainRun(experiment, console=console)
            for experiment in experiments
        ]
        # Last: whatever else is wrong leaves no folder behind.
        for experiment in experiments:
            check_storage_path(experiment.storage_path)

    def run(self) -> Iterator[Path]:
        """Trains; yields the path of each summary."""
        with ray_session(self._ray_options, self._configs, verbose=self._verbose):
            for run in self._runs:
                yield run.run()


def _check_evaluates(experiment: Experiment) -> None:
    """Raises ValueError where a result key is of evaluations, and the training has none."""
    checkpoints, interval = experiment.checkpoints, experiment.config.evaluation_interval
    keys = [*experiment.stop, checkpoints.best_by, checkpoints.score_attribute, experiment.metric]
    of_evaluations = next((key for key in keys if key is not None and key.startswith(OF_EVALUATIONS)), None)
    if of_evaluations is not None and not interval:
        raise ValueError(
            f"the result key {of_evaluations!r} is of evaluations during the training, and with evaluation_interval="
            f'{interval} there are none: set it in the config, like {{"evaluation_interval": 5}}'
        )
