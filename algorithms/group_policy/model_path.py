"""Where a config's model is, said so that it holds in every working directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rllib_gigpo.algorithms.group_policy.grid_values import each_value

# Stands for the model that comes with the environment, wherever that is installed; the command line resolves it.
_EMBEDDED = "embedded"


def absolute_model_path(model_path: Any) -> Any:
    """A path as an absolute one, `~` expanded, in a grid of Tune's too; anything else as it is.

    Trials of Tune, workers and whoever loads a checkpoint run in other directories than the script.
    """
    return each_value(_absolute, model_path)


def _absolute(model_path: Any) -> Any:
    if model_path == _EMBEDDED or not isinstance(model_path, str | Path):
        return model_path
    return str(Path(model_path).expanduser().absolute())
