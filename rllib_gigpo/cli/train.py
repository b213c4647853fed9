"""`rllib train`: trains from a configuration."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from rllib_gigpo.cli.config_file import check_stop, load_config_file
from rllib_gigpo.cli.errors import reported_errors
from rllib_gigpo.cli.quiet_ray import quiet_ray

train_app = typer.Typer(help="Train from a configuration.", no_args_is_help=True)


@train_app.callback()
def train() -> None:
    """Train from a configuration."""


@train_app.command("file")
def train_file(
    config_file: Annotated[Path, typer.Argument(metavar="CONFIG.py", help="Python file with `config`, maybe `stop`.")],
    stop: Annotated[
        str | None,
        typer.Option(
            "--stop", "-s", metavar="JSON", help="""Instead of the file's, like '{"training_iteration": 5}'."""
        ),
    ] = None,
    storage_path: Annotated[Path, typer.Option("--storage-path", help="The run's own folder is made in it.")] = Path(
        "runs"
    ),
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Ray's logs, and tracebacks of errors.")] = False,
) -> None:
    """Train the `config` of a Python file until its `stop`; the last line printed is the path of the summary."""
    console = Console()
    with reported_errors(verbose):
        quiet_ray(verbose)
        loaded = load_config_file(config_file, stop=None if stop is None else _stop_from_json(stop))
        # Brings torch and RLlib, seconds: not before a wrong path or a broken file is reported.
        from rllib_gigpo.cli.train_run import TrainRun

        run = TrainRun(loaded, storage_path, console=console, verbose=verbose)
    with reported_errors(verbose, bad_input=()):
        summary = run.run()
    typer.echo(summary)


def _stop_from_json(text: str) -> dict[str, float]:
    try:
        stop: Any = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"""--stop {text!r} is not JSON ({error}); write it like '{{"training_iteration": 5}}'"""
        ) from error
    return check_stop(stop, "--stop")
