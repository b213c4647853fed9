"""Environments for language agents, by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym

from rllib_gigpo import registry


def make_env(name: str, **options: Any) -> gym.Env:
    """A new environment, for example `make_env("EZPoints", max_steps=8)`.

    Raises:
        ValueError: No environment has that name, or one of its options is wrong.
    """
    return registry.environment(name).make(**options)


def embedded_model_path(name: str) -> Path:
    """Directory of the tiny language model that ships with an environment.

    Raises:
        ValueError: No environment has that name, or it ships no model.
    """
    path = registry.environment(name).embedded_model
    if path is None:
        raise ValueError(f"environment {name!r} ships no embedded model; give the directory of a causal language model")
    return path
