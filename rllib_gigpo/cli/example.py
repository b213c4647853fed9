"""`rllib example`: the tuned examples."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Column, Table

from rllib_gigpo import registry
from rllib_gigpo.cli.errors import reported_errors
from rllib_gigpo.cli.example_header import ExampleHeader, example_file, example_header
from rllib_gigpo.cli.train import train_app

example_app = typer.Typer(help="Tuned examples.", no_args_is_help=True, rich_markup_mode=None)

_Id = Annotated[
    str, typer.Argument(metavar="ID", help="As `rllib example list` shows it.", autocompletion=registry.example_names)
]
_TITLES = {"tiny": "for a CPU", "paper": "settings of the papers, for GPUs"}


@example_app.command("list")
def list_examples(
    text: Annotated[str, typer.Option("--filter", "-f", metavar="TEXT", help="Only those with TEXT in their id.")] = "",
    algo: Annotated[str, typer.Option("--algo", metavar="NAME", help="Only those of this algorithm.")] = "",
    env: Annotated[str, typer.Option("--env", metavar="NAME", help="Only those of this environment.")] = "",
    kind: Annotated[str, typer.Option("--kind", metavar="tiny|paper", help="Only those of this kind.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """List the examples: those for a CPU, and the settings of the papers, by environment.

    Example: rllib example list --kind tiny --algo GiGPO
    """
    with reported_errors(verbose=False):
        if kind not in ("", *_TITLES):
            raise ValueError(f"--kind {kind!r} must be {' or '.join(_TITLES)}")
        found = [
            header
            for header in map(example_header, registry.example_names())
            if text.lower() in header.id.lower()
            and algo.lower() in ("", header.algorithm)
            and env.lower() in ("", header.environment)
            and kind in ("", header.kind)
        ]
        if not found:
            asked = {"--filter": text, "--algo": algo, "--env": env, "--kind": kind}
            wanted = " ".join(f"{option} {value}" for option, value in asked.items() if value)
            raise ValueError(f"no example fits {wanted}; there are {', '.join(registry.example_names())}")
        if as_json:
            typer.echo(json.dumps([{**asdict(header), "kind": header.kind} for header in found], indent=2))
        else:
            _print_tables(found)


@example_app.command("get")
def get_example(example: _Id) -> None:
    """Print the example's file.

    Example: rllib example get gigpo/ezpoints_text_tiny > my_training.py
    """
    with reported_errors(verbose=False):
        typer.echo(example_file(example).read_text(), nl=False)


@example_app.command("run", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def run_example(ctx: typer.Context, example: _Id) -> None:
    """Train the example; takes the options of `rllib train file`, --smoke among them.

    Example: rllib example run gigpo/ezpoints_text_tiny --smoke
    """
    with reported_errors(verbose=False):
        path = example_file(example)
    typer.main.get_command(train_app)(["file", str(path), *ctx.args], prog_name="rllib train")


def _print_tables(headers: Sequence[ExampleHeader]) -> None:
    """A table for each kind, in it a section for each environment."""
    console = Console()
    for kind, title in _TITLES.items():
        of_kind = sorted((h for h in headers if h.kind == kind), key=lambda header: (header.environment, header.id))
        if not of_kind:
            continue
        table = Table(Column("id", no_wrap=True), "description", title=title, title_justify="left")
        if kind == "paper":
            table.add_column("expected")
        for _, of_environment in groupby(of_kind, key=lambda header: header.environment):
            for header in of_environment:
                table.add_row(header.id, header.description, *([header.expected] if kind == "paper" else []))
            table.add_section()
        console.print(table)
