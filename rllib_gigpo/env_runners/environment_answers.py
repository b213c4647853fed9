"""Checks what an environment answers, before it enters an episode."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np

from rllib_gigpo.columns import ADMISSIBLE_ACTIONS, ANCHOR_STATE, IS_ACTION_VALID
from rllib_gigpo.images import IMAGE, TEXT, check_image


class EnvironmentAnswerError(TypeError):
    """An environment answered something that Gymnasium's API or the environment contract does not allow."""


def check_reset(answer: Any) -> tuple[Any, dict[str, Any]]:
    """The (observation, info) of a `reset`. Raises EnvironmentAnswerError."""
    if not (isinstance(answer, tuple) and len(answer) == 2):
        raise EnvironmentAnswerError(f"reset() returned {describe(answer)}; it must return (observation, info)")
    observation, info = answer
    check_observation("reset", observation)
    check_info("reset", info)
    return observation, info


def check_step(answer: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
    """The (observation, reward, terminated, truncated, info) of a `step`. Raises EnvironmentAnswerError."""
    if not (isinstance(answer, tuple) and len(answer) == 5):
        raise EnvironmentAnswerError(
            f"step() returned {describe(answer)}; it must return (observation, reward, terminated, truncated, info)"
        )
    observation, reward, terminated, truncated, info = answer
    check_observation("step", observation)
    check_reward(reward)
    for name, value in (("terminated", terminated), ("truncated", truncated)):
        if not isinstance(value, bool | np.bool_):
            raise EnvironmentAnswerError(f"step() returned {name}={value!r}; it must be a bool")
    check_info("step", info)
    return observation, float(reward), bool(terminated), bool(truncated), info


def check_reward(reward: Any) -> None:
    """Raises EnvironmentAnswerError unless `reward` is a finite number."""
    if not isinstance(reward, Real | np.floating | np.integer) or not math.isfinite(reward):
        raise EnvironmentAnswerError(f"step() returned the reward {reward!r}; it must be a finite number")


def check_observation(method: str, observation: Any) -> None:
    """Raises EnvironmentAnswerError unless an observation that `method` returned is a text, or a dict of a text and an
    image."""
    text = observation
    if isinstance(observation, dict):
        if set(observation) != {TEXT, IMAGE}:
            raise EnvironmentAnswerError(
                f"{method}() returned an observation with the keys {sorted(map(str, observation))}; one with an image "
                f"must have the keys {TEXT!r} and {IMAGE!r}"
            )
        text = observation[TEXT]
        try:
            check_image(observation[IMAGE], f"the observation's {IMAGE!r} that {method}() returned")
        except ValueError as error:
            raise EnvironmentAnswerError(str(error)) from error
    if not isinstance(text, str):
        raise EnvironmentAnswerError(
            f"{method}() returned the observation {describe(text)}; it must be a str, or a dict of {TEXT!r}, a str, "
            f"and {IMAGE!r}"
        )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise EnvironmentAnswerError(
            f"{method}() returned an observation that is not valid Unicode: {error}"
        ) from error


def check_info(method: str, info: Any) -> None:
    """Raises EnvironmentAnswerError unless an info that `method` returned can be read."""
    if not isinstance(info, dict):
        raise EnvironmentAnswerError(f"{method}() returned the info {describe(info)}; it must be a dict")
    if isinstance(info.get(ADMISSIBLE_ACTIONS), str):
        raise EnvironmentAnswerError(
            f"{method}() returned {ADMISSIBLE_ACTIONS}={describe(info[ADMISSIBLE_ACTIONS])}; it must be a list of str"
        )
    is_valid = info.get(IS_ACTION_VALID)
    if not (is_valid is None or isinstance(is_valid, bool | np.bool_ | int | np.integer)):
        raise EnvironmentAnswerError(f"{method}() returned {IS_ACTION_VALID}={describe(is_valid)}; it must be a bool")


def check_anchor_state(first: dict[str, Any], info: dict[str, Any]) -> None:
    """Raises EnvironmentAnswerError where one of two infos of an episode has an anchor state and the other has none:
    states would be compared with observations."""
    if (first.get(ANCHOR_STATE) is None) != (info.get(ANCHOR_STATE) is None):
        has, lacks = ("step", "reset") if first.get(ANCHOR_STATE) is None else ("reset", "step")
        raise EnvironmentAnswerError(
            f"the info of {has}() has {ANCHOR_STATE!r} and that of {lacks}() has none; give it in every info or in none"
        )


def describe(value: Any) -> str:
    """A value as it is shown in errors: short, with its type."""
    text = repr(value)
    return f"{text[:80]}{'…' if len(text) > 80 else ''} ({type(value).__name__})"
