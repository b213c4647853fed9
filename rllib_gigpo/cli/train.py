"""`rllib train`: trains from options or from a config file."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from rllib_gigpo import registry
from rllib_gigpo.cli.config_file import load_config_file
from rllib_gigpo.cli.errors import reported_errors
from rllib_gigpo.cli.experiment import Experiment
from rllib_gigpo.cli.experiment_mapping import check_framework, experiment_from_mapping
from rllib_gigpo.cli.gone_options import TrainCommand, TrainFileCommand, TrainGroup
from rllib_gigpo.cli.quiet_ray import quiet_ray
from rllib_gigpo.cli.train_options import TrainOptions, takes_train_options
from rllib_gigpo.cli.waiting import waiting

train_app = typer.Typer(
    help="Train from options or a config file.", no_args_is_help=True, cls=TrainGroup, rich_markup_mode=None
)

_RUN_HELP = """The same as `rllib train` with these options.

Example: rllib train run -a GiGPO -e EZPoints -s '{"training_iteration": 20}' -c '{"model_path": "embedded"}'"""
_MISSING_STOP = """--stop is missing; training would never end. Add --stop '{"training_iteration": 40}'"""


@train_app.callback(invoke_without_command=True)
@train_app.command("run", cls=TrainCommand, help=_RUN_HELP)
@takes_train_options
def train(
    ctx: typer.Context,
    algo: Annotated[
        str | None,
        typer.Option(
            *("--algo", "--run", "-a", "-r"),
            metavar="NAME",
            help="The algorithm, like GiGPO.",
            autocompletion=registry.algorithm_names,
        ),
    ] = None,
    env: Annotated[
        str | None,
        typer.Option(
            "--env",
            "-e",
            help="The environment, like EZPoints, or package.module.Class.",
            autocompletion=registry.environment_names,
        ),
    ] = None,
    framework: Annotated[str, typer.Option("--framework", help="There is only torch.")] = "torch",
    *,
    options: TrainOptions,
) -> None:
    """Train an algorithm on an environment, or a config file; the last line printed is the path of the summary, or
    with --json the summary.

    One training runs in this process. Search spaces (a value like {"grid_search": [1, 2]}), several samples,
    checkpoints during the run, retries, a scheduler or a cluster's address make it a run of Ray Tune.

    Example: rllib train -a GiGPO -e EZPoints -s '{"training_iteration": 20}' -c '{"model_path": "embedded"}'
    """
    if ctx.invoked_subcommand is not None:
        with reported_errors(options.verbose):
            _refuse_options_before(ctx)
        return

    def experiments() -> list[Experiment]:
        check_framework(framework, "--framework")
        if algo is None:
            raise ValueError("--algo is missing; it names the algorithm, like --algo GiGPO")
        stop = options.parsed_stop()
        if stop is None:
            raise ValueError(_MISSING_STOP)
        spec = {"run": algo} | ({} if env is None else {"env": env})
        name = algo if env is None else f"{algo}-{env}".replace("/", "-")  # ALE/Pong-v5
        return [experiment_from_mapping(name, spec, "the command", stop=stop)]

    _train(experiments, options)


@train_app.command("file", cls=TrainFileCommand)
@takes_train_options
def train_file(
    config_file: Annotated[
        Path, typer.Argument(metavar="CONFIG", help="Python file with `config`, maybe `stop`; or YAML.")
    ],
    *,
    options: TrainOptions,
) -> None:
    """Train what a Python or YAML file describes; options go before what the file says.

    A Python file has `config`, an AlgorithmConfig, and maybe `stop`. A YAML file has RLlib's experiment format, {name:
    {run, env, stop, config, …}}; several experiments are trained one after the other.

    Example: rllib train file tuned_examples/gigpo/ezpoints_text_tiny.py --config '{"lr": 1e-4}'
    """
    _train(lambda: load_config_file(config_file, stop=options.parsed_stop()), options)


def _train(load: Callable[[], Sequence[Experiment]], options: TrainOptions) -> None:
    """Trains what `load` gives, with `options`; prints the path of each summary."""
    with reported_errors(options.verbose):
        quiet_ray(options.verbose)
        with waiting("importing Ray and torch, checking the config", hidden=options.quiet or options.verbose):
            experiments = [options.applied_to(experiment) for experiment in load()]
            # Brings torch and RLlib, seconds: not before a wrong path or a broken file is reported.
            from rllib_gigpo.cli.runs import Runs

            runs = Runs(experiments, options)
    # From here on a ValueError is no wrong input, except for a result key that only a result can show to be wrong.
    with reported_errors(options.verbose, bad_input=runs.bad_input):
        for summary in runs.run():
            typer.echo(_as_json(summary) if options.as_json else summary)


def _as_json(summary: Path) -> str:
    """One line: what the file holds, where it is, and the run's folder."""
    content = json.loads(summary.read_text())
    return json.dumps({"run": str(summary.parent), "summary": str(summary), **content})


def _refuse_options_before(ctx: typer.Context) -> None:
    """Raises ValueError for options between `train` and its subcommand: they would be forgotten."""
    given = [name for name in ctx.params if str(ctx.get_parameter_source(name)).endswith("COMMANDLINE")]
    if given:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise ValueError(f"write {names} after `{ctx.invoked_subcommand}`: rllib train {ctx.invoked_subcommand} …")
