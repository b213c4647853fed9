"""`rllib doctor`: looks for what is wrong before training does."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from rllib_gigpo import registry
from rllib_gigpo.cli.errors import FAILURE_EXIT_CODE, reported_errors
from rllib_gigpo.cli.json_option import json_object
from rllib_gigpo.cli.quiet_ray import quiet_ray
from rllib_gigpo.cli.waiting import waiting

if TYPE_CHECKING:
    from rllib_gigpo.env_checks import CheckResult

doctor_app = typer.Typer(help="Check this machine, or with env an environment.", rich_markup_mode=None)

_AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of lines.")]
_Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Tracebacks of errors.")]

_STYLES = {"pass": "green", "fail": "bold red", "warning": "yellow", "not applicable": "dim", "info": "cyan"}


@doctor_app.callback(invoke_without_command=True)
def doctor(ctx: typer.Context, as_json: _AsJson = False, verbose: _Verbose = False) -> None:
    """Check this machine: Python, packages, torch and torchvision, vLLM, GPUs, data, memory, and how to repair each.

    Exit code 1 where something must be repaired. A warning is something that may do for what you want. `rllib doctor
    env NAME` checks an environment.

    Example: rllib doctor --json
    """
    if ctx.invoked_subcommand is not None:
        return
    with reported_errors(verbose):
        quiet_ray(verbose)
        from rllib_gigpo.machine_checks import check_machine

        with waiting("looking at packages, GPUs, data and memory", hidden=as_json or verbose):
            results = check_machine()
    _report(results, as_json)


@doctor_app.command("env")
def doctor_env(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="A registered name, a Gymnasium id, or package.module.Class.",
            autocompletion=registry.environment_names,
        ),
    ],
    env_config: Annotated[str, typer.Option(metavar="JSON", help='Like {"max_steps": 8}.')] = "{}",
    episodes: Annotated[int, typer.Option(min=1, help="Random episodes to play; more find slower leaks.")] = 30,
    seed: Annotated[int, typer.Option(min=0, help="Of tasks and random actions.")] = 0,
    max_steps: Annotated[int, typer.Option(min=1, help="An episode that is longer counts as endless.")] = 1000,
    as_json: _AsJson = False,
    verbose: _Verbose = False,
) -> None:
    """Check an environment against the contract; exit code 1 where it breaks it.

    Example: rllib doctor env my_package.my_game.MyGame --env-config '{"max_steps": 8}'
    """
    with reported_errors(verbose):
        quiet_ray(verbose)
        options = json_object("--env-config", env_config, '{"max_steps": 8}')
        from rllib_gigpo.env_checks import check_contract

        with waiting(f"playing {name}", hidden=as_json or verbose):
            results = check_contract(name, options, episodes=episodes, seed=seed, max_steps=max_steps)
    _report(results, as_json)


def _report(results: list[CheckResult], as_json: bool) -> None:
    """Prints the results. Raises typer.Exit where a check failed."""
    if as_json:
        typer.echo(json.dumps([result.as_dict() for result in results], indent=2, ensure_ascii=False))
    else:
        _print(results)
    if any(result.status == "fail" for result in results):
        raise typer.Exit(FAILURE_EXIT_CODE)


def _print(results: list[CheckResult]) -> None:
    console = Console(soft_wrap=True)
    for result in results:
        fix = f" -> {result.fix}" if result.fix else ""
        line = f"{result.status:<14} {result.name:<25} {result.seen}{fix}"
        console.print(line, style=_STYLES[result.status], markup=False, highlight=False)
