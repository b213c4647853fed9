"""Dictionary keys for the content of states: texts, numbers, arrays, and mappings and sequences of these."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from rllib_gigpo.images import StoredImage, content_hash


def state_key(state: Any, row: int, pictures: list[np.ndarray] | None = None) -> Hashable:
    """A dictionary key for the content of `state`.

    Args:
        state: A str, an integer, an ndarray (not of objects), a StoredImage, or a mapping or sequence of these.
        row: For the error message.
        pictures: Where it is given, the pictures of the state are appended to it, and only their shapes are in the key.
            Pixels that are in the object store are fetched for that.

    Raises:
        TypeError: The state is, or holds, something else.
    """
    if isinstance(state, str):
        return str(state)
    if isinstance(state, StoredImage):
        if pictures is None:
            return "image", state.key
        state = np.asarray(state)
    if isinstance(state, np.ndarray) and not state.dtype.hasobject:
        if pictures is not None and is_picture(state):
            pictures.append(state)
            return "picture", state.shape
        return "array", content_hash(state)
    if isinstance(state, Mapping):
        parts = ((str(name), state_key(state[name], row, pictures)) for name in sorted(state, key=str))
        return "mapping", tuple(parts)
    if isinstance(state, tuple | list):
        return "sequence", tuple(state_key(part, row, pictures) for part in state)
    if isinstance(state, int | np.integer | np.bool_):
        return "integer", int(state)
    described = f"ndarray of {state.dtype}" if isinstance(state, np.ndarray) else type(state).__name__
    raise TypeError(
        f"the anchor state of row {row} is or holds a {described}; it must be a str, an integer, an ndarray of numbers "
        "or a mapping or sequence of these. Pass `anchor=` a function (observation, info) that returns one"
    )


def is_picture(array: np.ndarray) -> bool:
    """Whether it is uint8[H, W, C], with 1, 3 or 4 channels and at least one pixel."""
    return array.dtype == np.uint8 and array.ndim == 3 and array.shape[2] in (1, 3, 4) and array.size > 0
