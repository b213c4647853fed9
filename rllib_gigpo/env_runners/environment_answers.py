"""Checks what an environment answers, before it enters an episode."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np

from rllib_gigpo.columns import ADMISSIBLE_ACTIONS


class EnvironmentAnswerError(TypeError):
    """An environment answered something that Gymnasium's API or the environment contract does not allow."""


def check_reset(answer: Any) -> tuple[str, dict[str, Any]]:
    """The (observation, info) of a `reset`. Raises EnvironmentAnswerError."""
    if not (isinstance(answer, tuple) and len(answer) == 2):
        raise EnvironmentAnswerError(f"reset() returned {_describe(answer)}; it must return (observation, info)")
    observation, info = answer
    _check_observation("reset", observation)
    _check_info("reset", info)
    return observation, info


def check_step(answer: Any) -> tuple[str, float, bool, bool, dict[str, Any]]:
    """The (observation, reward, terminated, truncated, info) of a `step`. Raises EnvironmentAnswerError."""
    if not (isinstance(answer, tuple) and len(answer) == 5):
        raise EnvironmentAnswerError(
            f"step() returned {_describe(answer)}; it must return (observation, reward, terminated, truncated, info)"
        )
    observation, reward, terminated, truncated, info = answer
    _check_observation("step", observation)
    if not isinstance(reward, Real | np.floating | np.integer) or not math.isfinite(reward):
        raise EnvironmentAnswerError(f"step() returned the reward {reward!r}; it must be a finite number")
    for name, value in (("terminated", terminated), ("truncated", truncated)):
        if not isinstance(value, bool | np.bool_):
            raise EnvironmentAnswerError(f"step() returned {name}={value!r}; it must be a bool")
    _check_info("step", info)
    return observation, float(reward), bool(terminated), bool(truncated), info


def _check_observation(method: str, observation: Any) -> None:
    if not isinstance(observation, str):
        raise EnvironmentAnswerError(f"{method}() returned the observation {_describe(observation)}; it must be a str")
    try:
        observation.encode()
    except UnicodeEncodeError as error:
        raise EnvironmentAnswerError(
            f"{method}() returned an observation that is not valid Unicode: {error}"
        ) from error


def _check_info(method: str, info: Any) -> None:
    if not isinstance(info, dict):
        raise EnvironmentAnswerError(f"{method}() returned the info {_describe(info)}; it must be a dict")
    if isinstance(info.get(ADMISSIBLE_ACTIONS), str):
        raise EnvironmentAnswerError(
            f"{method}() returned {ADMISSIBLE_ACTIONS}={_describe(info[ADMISSIBLE_ACTIONS])}; it must be a list of str"
        )


def _describe(value: Any) -> str:
    text = repr(value)
    return f"{text[:80]}{'…' if len(text) > 80 else ''} ({type(value).__name__})"
