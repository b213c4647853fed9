"""Code that draws from Python's and NumPy's global generators, made to keep to a seed and to leave no trace."""

from __future__ import annotations

import random
from types import TracebackType
from typing import Any

import numpy as np


class GlobalRandomState:
    """A state of the global generators that is in force inside of a `with`, and goes on where it was the next time.

    Args:
        seed: Below 2**32.
    """

    def __init__(self, seed: int):
        self._own: tuple[Any, Any] = (
            random.Random(seed).getstate(),
            np.random.RandomState(seed).get_state(),
        )
        self._others: tuple[Any, Any] | None = None

    def __enter__(self) -> GlobalRandomState:
        self._others = _state()
        _set_state(self._own)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        assert self._others is not None
        self._own = _state()
        _set_state(self._others)


def _state() -> tuple[Any, Any]:
    return random.getstate(), np.random.get_state()


def _set_state(state: tuple[Any, Any]) -> None:
    random.setstate(state[0])
    np.random.set_state(state[1])
