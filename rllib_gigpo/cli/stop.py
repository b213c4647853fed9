"""When training stops."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

from ray.tune import Stopper

from rllib_gigpo.cli.progress import value_at

# How the keys of what only an iteration with an evaluation has begin.
OF_EVALUATIONS = "evaluation/"


class UnknownResultKeyError(ValueError):
    """A result key that was given is not in the results."""


def reached(stop: Mapping[str, float], result: Mapping[str, Any]) -> bool:
    """Whether a number of the result is at or over its value in `stop`.

    Raises:
        UnknownResultKeyError: A key of `stop` is not in the result.
    """
    checked = ((value, checked_value(result, key, "stop key")) for key, value in stop.items())
    return any(current is not None and current >= value for value, current in checked)


def checked_value(result: Mapping[str, Any], key: str, what: str) -> Any:
    """The value at `key`; None for one of an evaluation in an iteration without, since not every one evaluates, and for
    any that is not there in an iteration that has lost all of its rollout groups.

    Raises:
        UnknownResultKeyError: `key` is not in the result, or what is there is no number.
    """
    current = value_at(result, key)
    may_come = key.startswith(OF_EVALUATIONS) and OF_EVALUATIONS.rstrip("/") not in result
    if current is None and not may_come and value_at(result, "env_runners/kept_groups") != 0:
        raise UnknownResultKeyError(
            f"{what} {key!r} is not in the train result; nested keys are written like 'env_runners/success_rate', and "
            f"these are there: {', '.join(sorted(map(str, result)))}"
        )
    if current is not None and not isinstance(current, Real):
        inside = f" with {', '.join(sorted(map(str, current)))}" if isinstance(current, Mapping) else ""
        raise UnknownResultKeyError(
            f"{what} {key!r} is no number in the train result, but a {type(current).__name__}{inside}"
        )
    return current


@dataclass
class StopWhenReached(Stopper):
    """`reached` for each trial of Tune, which itself would ignore an unknown key and train for ever.

    Attributes:
        stop: As for `reached`.
        metric: Result key by which trials will be compared at the end; must be in the results too.
        error: What is wrong with the keys; all trials end when it is set. Tune would bury an exception in its own.
    """

    stop: Mapping[str, float]
    metric: str
    error: UnknownResultKeyError | None = None

    def __call__(self, trial_id: str, result: Mapping[str, Any]) -> bool:
        try:
            checked_value(result, self.metric, "metric")
            return reached(self.stop, result)
        except UnknownResultKeyError as error:
            self.error = error
            return True

    def stop_all(self) -> bool:
        return self.error is not None
