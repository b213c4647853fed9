"""`rllib evaluate`, of which there are two: of a checkpoint, and with --agent of a model that is prompted."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand
from typer.main import get_command

from rllib_gigpo.cli.evaluate_agent import evaluate_agent
from rllib_gigpo.cli.gone_options import EVALUATE, refuse


class EvaluateCommand(TyperCommand):
    """The evaluation of a checkpoint; hands over to that of an agent where one is asked for."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        if any(argument.split("=")[0] == "--agent" for argument in args):
            agent_app = typer.Typer(add_completion=False, rich_markup_mode=None)
            agent_app.command("evaluate")(evaluate_agent)
            return get_command(agent_app).make_context(info_name, args, parent, **extra)
        return super().make_context(info_name, args, parent, **extra)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        refuse(args, EVALUATE)
        return super().parse_args(ctx, args)
