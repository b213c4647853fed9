"""Metrics under names with slashes, as the nested dictionaries that RLlib reports."""

from __future__ import annotations

from typing import Any


def nested(metrics: dict[str, Any]) -> dict[str, Any]:
    """{"a/b": 1} as {"a": {"b": 1}}."""
    nested: dict[str, Any] = {}
    for name, value in metrics.items():
        *parents, leaf = name.split("/")
        level = nested
        for parent in parents:
            level = level.setdefault(parent, {})
        level[leaf] = value
    return nested
