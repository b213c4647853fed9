"""Options of the old `rllib` command that are no more: each names today's way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from typer.core import TyperCommand, TyperGroup

from rllib_gigpo.cli.errors import reported_errors

_RESOURCES = "set num_env_runners, num_learners, num_gpus_per_learner and num_gpus_per_env_runner in the config"

TRAIN = {
    "--local-mode": "Ray has no local mode any more; num_env_runners=0 and num_learners=0 train in one process",
    "--trace": "eager tracing was TensorFlow's, and there is only torch",
    "--eager": "it was TensorFlow's, and there is only torch",
    "--torch": "there is only torch; leave it out",
    "--tf": "there is only torch",
    "--upload-dir": "use --storage-path",
    "--local-dir": "use --storage-path",
    "--resources-per-trial": _RESOURCES,
    "--ray-ui": "start Ray with its dashboard and use --ray-address",
    "--ray-num-nodes": "start a cluster and use --ray-address",
    "--queue-trials": "trials wait for resources by themselves; leave it out",
    "--wandb-key": "log in with `wandb login`, and use --wandb-project",
    "--type": "the file's ending tells its type: .py, .yaml or .yml",
}
# The config file has these; plain options do not.
TRAIN_FILE = TRAIN | {
    "--algo": "the file says which algorithm",
    "--run": "the file says which algorithm",
    "--env": "the file says which environment",
}
EVALUATE = {
    "--local-mode": TRAIN["--local-mode"],
    "--algo": "the checkpoint knows its algorithm; leave it out",
    "--run": "the checkpoint knows its algorithm; leave it out",
    "--env": "the checkpoint knows its environment; leave it out, or give --agent and --model",
    "--steps": "use --episodes, the number of tasks on the panel",
    "--render": "environments of text print nothing; --out writes the results",
    "--video-dir": "use --out",
    "--save-info": "use --out",
    "--use-shelve": "use --out, which writes JSON",
    "--track-progress": "leave it out",
}


def refuse(arguments: list[str], gone: Mapping[str, str]) -> None:
    for argument in arguments:
        name = argument.split("=")[0]
        if name in gone:
            with reported_errors(verbose=False):
                raise ValueError(f"the option {name} is no more: {gone[name]}")


def _want_file(arguments: list[str]) -> None:
    if arguments and arguments[0].endswith((".py", ".yaml", ".yml")):
        with reported_errors(verbose=False):
            raise ValueError(f"{arguments[0]} looks like a config file; write rllib train file {arguments[0]}")


class TrainGroup(TyperGroup):
    """`rllib train`, with or without a subcommand."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args[:1] != ["file"]:
            refuse(args, TRAIN)
            _want_file(args)
        return super().parse_args(ctx, args)


class TrainCommand(TyperCommand):
    """`rllib train run`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        refuse(args, TRAIN)
        return super().parse_args(ctx, args)


class TrainFileCommand(TyperCommand):
    """`rllib train file`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        refuse(args, TRAIN_FILE)
        return super().parse_args(ctx, args)
