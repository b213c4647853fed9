"""Checks of a config's guards."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from rllib_gigpo.algorithms.group_policy.guards import ADVICE, KEYS


def check_guards(config: Any) -> Iterator[str]:
    """Yields a message for each value of the guards that cannot work."""
    for key, least in (("min_entropy", 0), ("max_length_growth", 1), ("min_valid_action_ratio", 0), ("max_kl", 0)):
        value = getattr(config, key)
        if value is not None and not value > least:
            yield f"{key}={value!r} must be greater than {least}, or None for no such guard."
    if config.min_valid_action_ratio is not None and config.min_valid_action_ratio >= 1:
        yield f"min_valid_action_ratio={config.min_valid_action_ratio!r} must be less than 1: it is of the best so far."
    names = config.stop_on_guards
    known = ", ".join(map(repr, ADVICE))
    if isinstance(names, str) or not isinstance(names, Collection):
        yield f"stop_on_guards={names!r} must be a list of names, of {known}."
        return
    for name in names:
        if not isinstance(name, str) or name not in ADVICE:
            yield f"stop_on_guards={list(names)!r}: there is no guard {name!r}; choose from {known}."
        elif getattr(config, key := KEYS[name]) is None:
            yield (
                f"stop_on_guards={list(names)!r}: {key}=None switches the guard {name!r} off; set guards({key}=…), or "
                "leave it out."
            )
