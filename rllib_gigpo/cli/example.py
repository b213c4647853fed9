"""`rllib example`: the tuned examples."""

from __future__ import annotations

import ast
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from rllib_gigpo import registry
from rllib_gigpo.cli.errors import reported_errors
from rllib_gigpo.cli.train import train_app

example_app = typer.Typer(help="Tuned examples.", no_args_is_help=True, rich_markup_mode=None)

_Id = Annotated[str, typer.Argument(metavar="ID", help="As `rllib example list` shows it.")]


@example_app.command("list")
def list_examples(
    text: Annotated[str, typer.Option("--filter", "-f", metavar="TEXT", help="Only those with TEXT in their id.")] = "",
) -> None:
    """List the examples."""
    with reported_errors(verbose=False):
        names = [name for name in registry.example_names() if text.lower() in name.lower()]
        if not names:
            raise ValueError(f"no example has {text!r} in its id; there are {', '.join(registry.example_names())}")
        table = Table("id", "description")
        for name in names:
            table.add_row(name, _description(_file(name)))
        Console().print(table)


@example_app.command("get")
def get_example(example: _Id) -> None:
    """Print the example's file."""
    with reported_errors(verbose=False):
        typer.echo(_file(example).read_text(), nl=False)


@example_app.command("run", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def run_example(ctx: typer.Context, example: _Id) -> None:
    """Train the example; takes the options of `rllib train file`."""
    with reported_errors(verbose=False):
        path = _file(example)
    typer.main.get_command(train_app)(["file", str(path), *ctx.args], prog_name="rllib train")


def _file(example: str) -> Path:
    module = registry.example_module(example)
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise ValueError(f"the module {module} of example {example!r} is not there; is its distribution whole?")
    return Path(spec.origin)


def _description(path: Path) -> str:
    """The first line of the file's docstring."""
    return (ast.get_docstring(ast.parse(path.read_text())) or "").partition("\n")[0]
