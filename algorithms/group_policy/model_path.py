"""Where a config's model is, said so that it holds in every working directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

# Stands for the model that comes with the environment, wherever that is installed; the command line resolves it.
_EMBEDDED = "embedded"


def absolute_model_path(model_path: Any) -> Any:
    """A path as an absolute one, `~` expanded, in a grid of Tune's too; anything else as it is.

    Trials of Tune, workers and whoever loads a checkpoint run in other directories than the script.
    """
    if (
        isinstance(model_path, dict)
        and set(model_path) == {"grid_search"}
        and isinstance(model_path["grid_search"], list)
    ):
        return {"grid_search": [absolute_model_path(path) for path in model_path["grid_search"]]}
    if model_path == _EMBEDDED or not isinstance(model_path, str | Path):
        return model_path
    return str(Path(model_path).expanduser().absolute())
