"""Environments for language agents, by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym

from rllib_gigpo import registry
from rllib_gigpo.environment_entry import shows_images


def make_env(name: str, **options: Any) -> gym.Env:
    """A new environment, for example `make_env("EZPoints", max_steps=8)`.

    Raises:
        ValueError: No environment has that name, or one of its options is wrong.
    """
    return registry.environment(name).make(**options)


def embedded_model_path(name: str, **options: Any) -> Path:
    """Directory of the tiny language model that ships with an environment; with `observation="image"` among its
    options, of the vision-language model for its pictures.

    Raises:
        ValueError: No environment has that name, or it ships no such model.
    """
    path = registry.environment(name).embedded_model_of(options)
    if path is None:
        pictures = " for its pictures" if shows_images(options) else ""
        raise ValueError(f"environment {name!r} ships no embedded model{pictures}; give the directory of another model")
    return path
