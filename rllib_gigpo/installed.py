"""Which optional packages are there."""

from __future__ import annotations

from importlib.util import find_spec


def is_installed(package: str) -> bool:
    """Whether there is a package of that name. A folder without `__init__.py`, such as the `wandb` that W&B makes where
    it runs, is none, though Python imports it."""
    spec = find_spec(package)
    return spec is not None and spec.origin is not None
