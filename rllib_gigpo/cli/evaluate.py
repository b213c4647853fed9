"""`rllib evaluate`: plays the evaluation panel with the policy of a checkpoint."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from rllib_gigpo.cli.errors import reported_errors
from rllib_gigpo.cli.experiment_mapping import with_config
from rllib_gigpo.cli.json_option import json_object
from rllib_gigpo.cli.progress import MISSING
from rllib_gigpo.cli.quiet_ray import quiet_ray
from rllib_gigpo.cli.waiting import waiting

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm import Algorithm

_SHOWN = (
    "success_rate",
    "success_rate_stderr",
    "episode_return_mean",
    "episode_len_mean",
    "response_tokens_mean",
    "invalid_action_share",
    "panel_size",
    "panel_hash",
)


def evaluate(
    checkpoint: Annotated[Path, typer.Argument(metavar="CHECKPOINT", help="Folder with rllib_checkpoint.json in it.")],
    episodes: Annotated[int | None, typer.Option(min=1, help="Tasks on the panel. Default: as trained.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE.json", help="Write the results to it.")] = None,
    config: Annotated[
        str, typer.Option("--config", "-c", metavar="JSON", help='Of the evaluation, like {"temperature": 0}.')
    ] = "{}",
    ray_address: Annotated[
        str | None, typer.Option(help="Of a running cluster, or auto. Default: a Ray on this machine.")
    ] = None,
    ray_num_cpus: Annotated[int | None, typer.Option(min=1, help="Logical CPUs of a local Ray.")] = None,
    ray_num_gpus: Annotated[int | None, typer.Option(min=0, help="GPUs of a local Ray.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Ray's logs, and tracebacks of errors.")] = False,
) -> None:
    """Play the evaluation panel with the policy of a checkpoint.

    Loading a checkpoint runs code from it, for RLlib's checkpoints hold pickles: only evaluate what you trust.

    Example: rllib evaluate runs/my_run/checkpoint --episodes 256 --config '{"temperature": 0}'

    A model that is prompted and not trained: rllib evaluate --agent prompt|react|reflexion --help.
    """
    with reported_errors(verbose):
        quiet_ray(verbose)
        changes = json_object("--config", config, '{"temperature": 0}')
        if episodes is not None:
            changes["evaluation_duration"] = episodes
        if out is not None and not out.absolute().parent.is_dir():
            raise ValueError(f"--out {out}: the folder {out.absolute().parent} does not exist")
        from rllib_gigpo.cli.checkpoint import checkpoint_class
        from rllib_gigpo.cli.ray_session import RayOptions, ray_session

        ray_options = RayOptions(ray_address, ray_num_cpus, ray_num_gpus)
        algo_class = checkpoint_class(checkpoint)
        # Unknown keys and wrong values, before Ray starts.
        with_config(algo_class.get_default_config(), changes, "--config")
    with reported_errors(verbose, bad_input=(ValueError,)):
        with (
            waiting("restoring the checkpoint, playing the evaluation panel", hidden=quiet or verbose),
            ray_session(ray_options, (), verbose=verbose),
        ):
            results = _evaluate(algo_class, checkpoint, changes)
        if out is not None:
            out.write_text(json.dumps(results, indent=2) + "\n")
    if as_json:
        typer.echo(json.dumps(results, indent=2))
    else:
        Console().print(_table(results))


def _evaluate(algo_class: type[Algorithm], path: Path, changes: Mapping[str, Any]) -> dict[str, Any]:
    algo = algo_class.from_checkpoint(str(path.absolute()))
    try:
        if changes:
            algo.evaluation_config = with_config(algo.evaluation_config, changes, "--config")
            algo.evaluation_config.validate()
        numbers = algo.evaluate()["env_runners"]
        return {
            "checkpoint": str(path.absolute()),
            "algorithm": type(algo).__name__,
            "env": str(algo.config.env),
            "training_iteration": int(algo.iteration),
            **_plain(numbers),
        }
    finally:
        algo.stop()
        # RLlib makes a folder of its own for every Algorithm and puts nothing into it.
        with suppress(OSError):
            Path(algo.logdir).rmdir()


def _plain(value: Any) -> Any:
    """Metrics as JSON has them: NumPy's numbers as Python's, and null for what is not a number."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, str | bool | int):
        return value
    number = float(value)
    # NaN is the only number that is unequal to itself.
    return None if number != number else number


def _table(results: Mapping[str, Any]) -> Table:
    title = f"{results['algorithm']} on {results['env']}, iteration {results['training_iteration']}"
    table = Table("result", "value", title=title)
    for name in _SHOWN:
        value = results.get(name)
        text = MISSING if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
        table.add_row(name, text)
    return table
