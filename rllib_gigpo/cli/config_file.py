"""Reads a config file: a Python module with `config` and maybe `stop`, or YAML in RLlib's experiment format."""

from __future__ import annotations

import runpy
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rllib_gigpo.cli.experiment import Experiment
from rllib_gigpo.cli.experiment_mapping import check_stop, experiment_from_mapping
from rllib_gigpo.cli.strict_yaml import load_yaml

_PYTHON_EXAMPLE = 'config = GiGPOConfig().environment("EZPoints")'
_YAML_EXAMPLE = "my-experiment: {run: GiGPO, env: EZPoints, stop: {training_iteration: 40}, config: {…}}"


def load_config_file(path: Path, stop: Mapping[str, float] | None = None) -> list[Experiment]:
    """The experiments of the file, one for Python; `stop` given here replaces the file's.

    A Python file runs under no importable module name: what it defines reaches Ray's workers by value, and neither
    `sys.path` nor `sys.modules` keeps anything of it. A YAML file is data only.

    Raises:
        ValueError: No such file, neither Python nor YAML, an error inside it, or content that describes no experiment.
    """
    if path.is_dir():
        raise ValueError(f"{path} is a folder; give a Python or YAML file")
    if not path.exists():
        raise ValueError(f"config file {path} does not exist (looked in {path.absolute().parent})")
    if path.suffix == ".py":
        return [_python_experiment(path, stop)]
    if path.suffix in (".yaml", ".yml"):
        return _yaml_experiments(path, stop)
    raise ValueError(f"config file {path} must be Python or YAML, its name ending in .py, .yaml or .yml")


def _yaml_experiments(path: Path, stop: Mapping[str, float] | None) -> list[Experiment]:
    content = load_yaml(path)
    if not isinstance(content, dict) or not content:
        kind = "empty" if content in (None, {}) else f"of type {type(content).__name__}"
        raise ValueError(f"{path} is {kind}; it must be a mapping of names to experiments, like {_YAML_EXAMPLE}")
    if "run" in content:
        raise ValueError(f"{path} has `run` at its top; put the experiment under a name, like {_YAML_EXAMPLE}")
    return [
        experiment_from_mapping(str(name), spec, f"experiment {str(name)!r} of {path}", stop=stop)
        for name, spec in content.items()
    ]


def _python_experiment(path: Path, stop: Mapping[str, float] | None) -> Experiment:
    variables = _run(path)
    if "config" not in variables:
        raise ValueError(f"{path} has no module variable `config`; it needs one, for example {_PYTHON_EXAMPLE}")
    config = variables["config"]

    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

    if not isinstance(config, AlgorithmConfig):
        is_class = isinstance(config, type)
        kind = f"the class {config.__name__}, not an instance" if is_class else f"of type {type(config).__name__}"
        raise ValueError(f"`config` in {path} is {kind}; it must be an AlgorithmConfig, for example {_PYTHON_EXAMPLE}")
    if config.algo_class is None:
        raise ValueError(
            f"`config` in {path} is a plain AlgorithmConfig of no algorithm; make it for example {_PYTHON_EXAMPLE}"
        )
    from rllib_gigpo.cli.search_space import check_grids

    check_grids(config.to_dict(), f"`config` in {path}")
    if stop is None:
        if "stop" not in variables:
            raise ValueError(
                f"{path} has no module variable `stop` and no --stop was given; training would never end. "
                f'Add for example stop = {{"training_iteration": 40}}'
            )
        stop = check_stop(variables["stop"], f"`stop` in {path}")
    return Experiment(path.stem, config, stop)


def _run(path: Path) -> dict[str, Any]:
    try:
        return runpy.run_path(str(path), run_name=f"<config {path.stem}>")
    except Exception as error:
        raise ValueError(f"{path}{_line_in(path, error)}: {type(error).__name__}: {error}") from error


def _line_in(path: Path, error: Exception) -> str:
    """Where in the file the error arose, as ", line 7"; empty where it is not known."""
    if isinstance(error, SyntaxError):
        return f", line {error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return f", line {lines[-1]}" if lines else ""
