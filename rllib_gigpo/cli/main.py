"""The `rllib` command."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

import rllib_gigpo
from rllib_gigpo.cli.doctor import doctor_app
from rllib_gigpo.cli.evaluate import evaluate
from rllib_gigpo.cli.evaluate_command import EvaluateCommand
from rllib_gigpo.cli.example import example_app
from rllib_gigpo.cli.export import export
from rllib_gigpo.cli.plan import plan
from rllib_gigpo.cli.report import report
from rllib_gigpo.cli.retriever import retriever_app
from rllib_gigpo.cli.train import train_app

app = typer.Typer(
    name="rllib",
    help="Train language-model agents on Ray RLlib.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(train_app, name="train")
app.add_typer(example_app, name="example")
app.command("evaluate", cls=EvaluateCommand)(evaluate)
app.command("export")(export)
app.command("report")(report)
app.command("plan")(plan)
app.add_typer(doctor_app, name="doctor")
app.add_typer(retriever_app, name="retriever")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"rllib-gigpo {rllib_gigpo.__version__}")
        raise typer.Exit()


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Train language-model agents on Ray RLlib."""
    # As Python has it for a script, which the installed command is elsewhere: environments of one's own are often here.
    # Ray has its workers search the folder too. Last, so that no file in it hides a package.
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
