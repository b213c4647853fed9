"""Metrics by their path, as the levels that RLlib's results have."""

from __future__ import annotations

from typing import Any


def nested(metrics: dict[str, Any]) -> dict[str, Any]:
    """{"a/b": 1} as {"a": {"b": 1}}."""
    levels: dict[str, Any] = {}
    for name, value in metrics.items():
        *parents, leaf = name.split("/")
        level = levels
        for parent in parents:
            level = level.setdefault(parent, {})
        level[leaf] = value
    return levels
