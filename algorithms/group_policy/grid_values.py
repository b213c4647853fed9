"""Values of config keys that may be a grid of Tune's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def each_value(function: Callable[[Any], Any], value: Any) -> Any:
    """`function(value)`, or where `value` is `tune.grid_search([...])` the same of each value in it."""
    if isinstance(value, dict) and set(value) == {"grid_search"} and isinstance(value["grid_search"], list):
        return {"grid_search": [each_value(function, each) for each in value["grid_search"]]}
    return function(value)
