"""Loads a Python config file: a module with `config`, an RLlib AlgorithmConfig, and maybe `stop`."""

from __future__ import annotations

import math
import runpy
import traceback
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

_EXAMPLE = 'config = GiGPOConfig().environment("EZPoints")'


class ConfigFileError(ValueError):
    """A config file cannot be used; the message says why, in one line."""


@dataclass(frozen=True)
class LoadedConfig:
    """A config file's content.

    Attributes:
        name: The file's name without suffix, for the run's folder.
        config: As the file made it.
        stop: Result key ("training_iteration", "env_runners/success_rate", ...) to the value at which training stops.
    """

    name: str
    config: AlgorithmConfig
    stop: dict[str, float]


def load_config_file(path: Path, stop: dict[str, float] | None = None) -> LoadedConfig:
    """Runs the file and takes `config` and `stop` from it; `stop` given here replaces the file's.

    The file runs under no importable module name: what it defines reaches Ray's workers by value, and neither
    `sys.path` nor `sys.modules` keeps anything of it.

    Raises:
        ConfigFileError: No such file, not a Python file, an error inside it, no `config`, a `config` of a wrong type,
            no `stop`, or a `stop` that is no dictionary of result keys to finite numbers.
    """
    _check_path(path)
    variables = _run(path)
    if "config" not in variables:
        raise ConfigFileError(f"{path} has no module variable `config`; it needs one, for example {_EXAMPLE}")
    config = variables["config"]

    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

    if not isinstance(config, AlgorithmConfig):
        is_class = isinstance(config, type)
        kind = f"the class {config.__name__}, not an instance" if is_class else f"of type {type(config).__name__}"
        raise ConfigFileError(f"`config` in {path} is {kind}; it must be an AlgorithmConfig, for example {_EXAMPLE}")
    if config.algo_class is None:
        raise ConfigFileError(
            f"`config` in {path} is a plain AlgorithmConfig of no algorithm; make it for example {_EXAMPLE}"
        )
    if stop is None and "stop" not in variables:
        raise ConfigFileError(
            f"{path} has no module variable `stop` and no --stop was given; training would never end. "
            f'Add for example stop = {{"training_iteration": 40}}'
        )
    return LoadedConfig(path.stem, config, check_stop(variables["stop"], f"`stop` in {path}") if stop is None else stop)


def check_stop(stop: Any, where: str) -> dict[str, float]:
    """`stop` itself. Raises ConfigFileError if it is not a filled dictionary of result keys to numbers."""
    example = '{"training_iteration": 40}'
    if not isinstance(stop, dict) or not stop:
        raise ConfigFileError(f"{where} is {stop!r}; it must be a dictionary of result keys to numbers, like {example}")
    for key, value in stop.items():
        is_number = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
        if not isinstance(key, str) or not is_number:
            raise ConfigFileError(
                f"{where} has {key!r}: {value!r}; a result key and a number are needed, like {example}"
            )
    return {key: float(value) for key, value in stop.items()}


def _check_path(path: Path) -> None:
    if path.is_dir():
        raise ConfigFileError(f"{path} is a folder; give a Python file")
    if not path.exists():
        raise ConfigFileError(f"config file {path} does not exist (looked in {path.absolute().parent})")
    if path.suffix != ".py":
        raise ConfigFileError(f"config file {path} must be a Python file, its name ending in .py")


def _run(path: Path) -> dict[str, Any]:
    try:
        return runpy.run_path(str(path), run_name=f"<config {path.stem}>")
    except Exception as error:
        raise ConfigFileError(f"{path}{_line_in(path, error)}: {type(error).__name__}: {error}") from error


def _line_in(path: Path, error: Exception) -> str:
    """Where in the file the error arose, as ", line 7"; empty where it is not known."""
    if isinstance(error, SyntaxError):
        return f", line {error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return f", line {lines[-1]}" if lines else ""
