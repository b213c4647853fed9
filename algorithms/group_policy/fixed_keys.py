"""Keys of the shared config that an algorithm gives no choice in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def check_fixed_keys(config: Any, **fixed: Any) -> Iterator[str]:
    """Yields a message for each key of `config` that differs from the one value that its algorithm knows."""
    for key, value in fixed.items():
        if getattr(config, key) != value:
            name = type(config).__name__.removesuffix("Config")
            yield f"{key}={getattr(config, key)!r} does not apply to {name}: leave it at {value!r}."
