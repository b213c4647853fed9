"""The options that `rllib train` has with and without a config file, and what they change in an experiment."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import typer

from rllib_gigpo.cli.experiment import DEFAULT_METRIC, Experiment
from rllib_gigpo.cli.experiment_mapping import check_name, check_stop, with_config
from rllib_gigpo.cli.json_option import json_object
from rllib_gigpo.cli.tracking import Tracking

_STOP_EXAMPLE = '{"training_iteration": 40}'


def _option(*names: str, **settings: Any) -> Any:
    return typer.Option(*names, **settings)


@dataclass(frozen=True)
class TrainOptions:
    """Values as they were typed; None leaves what the experiment has. The fields are the command's options."""

    config: Annotated[
        str, _option("--config", "-c", metavar="JSON", help='Keys of the config, like {"lr": 1e-6, "group_size": 8}.')
    ] = "{}"
    stop: Annotated[
        str | None, _option("--stop", "-s", metavar="JSON", help=f"When training ends, like {_STOP_EXAMPLE}.")
    ] = None
    experiment_name: Annotated[
        str | None, _option("--experiment-name", "-n", metavar="NAME", help="The run's folder is named after it.")
    ] = None
    storage_path: Annotated[
        Path | None, _option("--storage-path", help="The run's own folder is made in it. Default: runs.")
    ] = None
    restore: Annotated[
        Path | None,
        _option("--restore", metavar="CHECKPOINT", help="Start from this checkpoint; loading it runs code from it."),
    ] = None
    num_samples: Annotated[
        int | None, _option("--num-samples", min=1, help="Trials per point of the grid. More than 1: by Tune.")
    ] = None
    checkpoint_freq: Annotated[
        int | None,
        _option("--checkpoint-freq", min=0, help="Iterations between checkpoints. More than 0: by Tune."),
    ] = None
    checkpoint_at_end: Annotated[
        bool | None, _option("--checkpoint-at-end/--no-checkpoint-at-end", help="Default: yes. No: by Tune.")
    ] = None
    keep_checkpoints_num: Annotated[
        int | None, _option("--keep-checkpoints-num", min=1, help="Keep the latest, or the best, so many. By Tune.")
    ] = None
    checkpoint_score_attr: Annotated[
        str | None,
        _option("--checkpoint-score-attr", metavar="KEY", help="Result key of the best ones; min-KEY: least is best."),
    ] = None
    keep_best: Annotated[
        str | None,
        _option(
            "--keep-best",
            metavar="KEY",
            help="Keep the best checkpoint by this result key beside the latest ones; min-KEY: least is best. Not by "
            "Tune.",
        ),
    ] = None
    max_failures: Annotated[
        int | None,
        _option("--max-failures", min=-1, help="Continue a failed trial so often, -1 always. Not 0: by Tune."),
    ] = None
    resume: Annotated[
        bool, _option("--resume", help="Continue the newest run of Tune of this name, with the settings it has.")
    ] = False
    scheduler: Annotated[
        str, _option("--scheduler", help="Of Tune: FIFO, AsyncHyperBand, pbt, … Not FIFO: by Tune.")
    ] = "FIFO"
    scheduler_config: Annotated[
        str, _option("--scheduler-config", metavar="JSON", help="The scheduler's arguments.")
    ] = "{}"
    metric: Annotated[str, _option("--metric", metavar="KEY", help="Result key by which trials are compared.")] = (
        DEFAULT_METRIC
    )
    mode: Annotated[str, _option("--mode", metavar="max|min", help="Which of them is the best.")] = "max"
    wandb_project: Annotated[
        str | None, _option("--wandb-project", metavar="NAME", help="Log to Weights & Biases, too. By Tune.")
    ] = None
    wandb_run_name: Annotated[str | None, _option("--wandb-run-name", metavar="NAME", help="There.")] = None
    mlflow_experiment: Annotated[
        str | None, _option("--mlflow-experiment", metavar="NAME", help="Log to MLflow, too. By Tune.")
    ] = None
    mlflow_uri: Annotated[
        str | None, _option("--mlflow-uri", help="Of its server or store. Default: $MLFLOW_TRACKING_URI.")
    ] = None
    ray_address: Annotated[
        str | None, _option("--ray-address", help="Of a running cluster, or auto. Default: a Ray on this machine.")
    ] = None
    ray_num_cpus: Annotated[int | None, _option("--ray-num-cpus", min=1, help="Logical CPUs of a local Ray.")] = None
    ray_num_gpus: Annotated[int | None, _option("--ray-num-gpus", min=0, help="GPUs of a local Ray.")] = None
    ray_object_store_memory: Annotated[
        int | None, _option("--ray-object-store-memory", min=1, help="Bytes, of a local Ray.")
    ] = None
    smoke: Annotated[
        bool, _option("--smoke", help="Try it out here: a tiny model, little data, one iteration, no GPU.")
    ] = False
    quiet: Annotated[
        bool, _option("--quiet", "-q", help="Print the path of the summary alone, and errors; no progress.")
    ] = False
    as_json: Annotated[
        bool, _option("--json", help="Print the summary as JSON, one line; progress goes to stderr.")
    ] = False
    log_info: Annotated[
        bool, _option("--log-info", "--verbose", "-v", help="Ray's logs, and tracebacks of errors.")
    ] = False
    log_debug: Annotated[bool, _option("--log-debug", "-vv", help="As -v, and RLlib's own debug logs.")] = False

    @property
    def verbose(self) -> bool:
        """Whether Ray's logs are shown."""
        return self.log_info or self.log_debug

    def parsed_stop(self) -> dict[str, float] | None:
        """What --stop says, None where it was not given and is needed. Raises ValueError for anything but keys and
        numbers."""
        if self.smoke and self.stop is None:
            return {"training_iteration": 1.0}
        return None if self.stop is None else check_stop(json_object("--stop", self.stop, _STOP_EXAMPLE), "--stop")

    def applied_to(self, experiment: Experiment) -> Experiment:
        """`experiment` with the options that were given. Raises ValueError for one that is wrong."""
        changes = json_object("--config", self.config, '{"lr": 1e-6}')
        if self.log_debug:
            changes.setdefault("log_level", "DEBUG")
        if self.experiment_name is not None:
            check_name(self.experiment_name, "--experiment-name")
        given = {
            "name": self.experiment_name,
            "num_samples": self.num_samples,
            "storage_path": self.storage_path,
            "restore": self.restore,
            "max_failures": self.max_failures,
        }
        changed = replace(
            experiment,
            config=with_config(experiment.config, changes, "--config") if changes else experiment.config,
            checkpoints=replace(experiment.checkpoints, **self._checkpoint_changes()),
            scheduler=self.scheduler,
            scheduler_config=json_object("--scheduler-config", self.scheduler_config, '{"grace_period": 5}'),
            metric=self.metric,
            mode=self._checked_mode(),
            tracking=Tracking(self.wandb_project, self.wandb_run_name, self.mlflow_experiment, self.mlflow_uri),
            **_not_none(given),
        )
        if self.smoke:
            from rllib_gigpo.cli.smoke import smoke_experiment

            return smoke_experiment(changed)
        return changed

    def _checkpoint_changes(self) -> dict[str, Any]:
        score, order = _key_and_order(self.checkpoint_score_attr)
        best_by, best_order = _key_and_order(self.keep_best)
        return _not_none(
            {
                "frequency": self.checkpoint_freq,
                "at_end": self.checkpoint_at_end,
                "num_to_keep": self.keep_checkpoints_num,
                "score_attribute": score,
                "score_order": order,
                "best_by": best_by,
                "best_order": best_order,
            }
        )

    def _checked_mode(self) -> Literal["max", "min"]:
        if self.mode == "max":
            return "max"
        if self.mode == "min":
            return "min"
        raise ValueError(f"--mode {self.mode!r} must be max or min")


def takes_train_options(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a Typer command the fields of TrainOptions as options; it gets them as one argument, `options`."""
    hints = get_type_hints(TrainOptions, include_extras=True)
    own = inspect.signature(command, eval_str=True).parameters.values()
    parameters = [parameter.replace(kind=parameter.KEYWORD_ONLY) for parameter in own if parameter.name != "options"]
    parameters += [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name]
        )
        for field in fields(TrainOptions)
    ]

    @wraps(command)
    def with_options(**values: Any) -> None:
        options = TrainOptions(**{field.name: values.pop(field.name) for field in fields(TrainOptions)})
        command(**values, options=options)

    with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_options.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return with_options


def _key_and_order(key: str | None) -> tuple[str | None, str | None]:
    if key is None:
        return None, None
    return key.removeprefix("min-"), "min" if key.startswith("min-") else "max"


def _not_none(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}
