"""`rllib plan`: what a config takes on a machine, before anything starts."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from rllib_gigpo.cli.errors import reported_errors
from rllib_gigpo.cli.json_option import json_object
from rllib_gigpo.cli.quiet_ray import quiet_ray
from rllib_gigpo.cli.waiting import waiting

if TYPE_CHECKING:
    from rllib_gigpo.planning import Plan

_GIB = 2**30


def plan(
    config_file: Annotated[Path, typer.Argument(metavar="CONFIG", help="A config file, as for `rllib train file`.")],
    gpus: Annotated[int, typer.Option("--gpus", min=1, help="GPUs of the machine.")] = 1,
    gpu_memory: Annotated[float, typer.Option("--gpu-memory", min=1, help="Of each of them, in GiB.")] = 80,
    placement: Annotated[
        str, typer.Option("--placement", metavar="auto|config|split|colocated", help="Which one to look at.")
    ] = "auto",
    config: Annotated[
        str, typer.Option("--config", "-c", metavar="JSON", help='Keys of the config, like {"lora_rank": 64}.')
    ] = "{}",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Tracebacks of errors.")] = False,
) -> None:
    """Print a placement of CONFIG on GPUs, the memory of each, and the bytes of a weight delivery; exit code 2 where
    nothing fits.

    Estimates, not measured on GPUs. The model need not be there: the sizes of common public ones are known by the name
    of their folder.

    Example: rllib plan tuned_examples/gigpo/alfworld_qwen25_1_5b.py --gpus 2 --gpu-memory 80
    """
    with reported_errors(verbose):
        quiet_ray(verbose)
        with waiting("importing Ray and torch", hidden=verbose):
            from rllib_gigpo.cli.config_file import load_config_file
            from rllib_gigpo.cli.experiment_mapping import with_config, with_model_path
            from rllib_gigpo.cli.search_space import first_variant
            from rllib_gigpo.planning import plan as plan_of
            from rllib_gigpo.planning.placement import PLACEMENTS

        chosen = next((known for known in PLACEMENTS if known == placement), None)
        if chosen is None:
            raise ValueError(f"--placement {placement!r} must be one of {', '.join(PLACEMENTS)}")
        if not math.isfinite(gpu_memory):
            raise ValueError(f"--gpu-memory {gpu_memory} must be a finite number of GiB")
        changes = json_object("--config", config, '{"lora_rank": 64}')
        plans = []
        experiments = load_config_file(config_file, stop={"training_iteration": 1.0})
        for experiment in experiments:
            changed = with_config(experiment.config, changes, "--config") if changes else experiment.config
            planned = with_model_path(first_variant(changed))
            try:
                found = plan_of(planned, num_gpus=gpus, gpu_memory_gib=gpu_memory, placement=chosen)
            except ValueError as error:
                raise ValueError(f"{experiment.name}: {error}" if len(experiments) > 1 else str(error)) from error
            plans.append((experiment.name, found))
    if as_json:
        typer.echo(json.dumps({name: found.as_dict() for name, found in plans}, indent=2))
    else:
        for name, found in plans:
            _print(name, found)


def _print(name: str, plan: Plan) -> None:
    console = Console(soft_wrap=True)
    processes = plan.processes

    def say(text: str) -> None:
        console.print(text, highlight=False, markup=False)

    say(
        f"{name}: {plan.model}, {plan.num_parameters / 1e9:.2f} billion parameters, {plan.placement}: "
        f"{processes.num_learners} learners, {processes.num_env_runners} engines"
    )
    learner, engine = plan.learner, plan.engine
    # A row for each part: as columns they would not fit a terminal.
    table = Table("GiB on a GPU", "of a learner", "of an engine", *["of both"] * plan.is_colocated)
    parts = {
        "weights": (learner.weights, engine.weights),
        "gradients": (learner.gradients, 0),
        "optimizer": (learner.optimizer, 0),
        "reference": (learner.reference, 0),
        "passes": (learner.activations + learner.logits + learner.gathered, 0),
        "cache": (0, engine.cache),
        "other": (learner.overhead, engine.overhead),
    }
    for part, amounts in parts.items():
        table.add_row(part, *_gib(*amounts))
    totals = [learner.total, engine.total, *[plan.fullest_gpu] * plan.is_colocated]
    table.add_row(f"total, of {plan.gpu_memory / _GIB:g}", *_gib(*totals))
    console.print(table)
    say(
        f"cache: {engine.requests_in_cache} prompts with responses of full length, of {engine.num_requests} that are "
        "worked on at once; shorter ones share it, others wait"
    )
    say(
        f"weight delivery: {plan.delivery_bytes / _GIB:.2f} GiB to each of {processes.num_env_runners} env runners, "
        f"{plan.shared_memory_bytes / _GIB:.2f} GiB in /dev/shm meanwhile"
    )
    if plan.offloaded_bytes:
        say(f"reference policy: {plan.offloaded_bytes / _GIB:.1f} GiB of each learner's host memory")
    say(f"config: {json.dumps(plan.settings)}")
    say("These are estimates; none of them was measured on a GPU.")


def _gib(*amounts: int) -> list[str]:
    return [f"{amount / _GIB:.1f}" if amount else "" for amount in amounts]
