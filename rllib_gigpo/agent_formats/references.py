"""Things that a config names by text: "package.module:name"."""

from __future__ import annotations

import pkgutil
import re
from typing import Any

_REFERENCE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


def is_reference(text: str) -> bool:
    """Whether it has the form "package.module:name"."""
    return _REFERENCE.fullmatch(text) is not None


def imported(key: str, reference: str) -> Any:
    """What "package.module:name" names.

    Args:
        key: The config key that holds the reference, for the error.
        reference: See `is_reference`.

    Raises:
        ValueError: There is no such thing, or importing it fails.
    """
    try:
        return pkgutil.resolve_name(reference)
    except Exception as error:  # a module runs any code while it is imported
        raise ValueError(
            f"{key}={reference!r} cannot be imported: {type(error).__name__}: {error}. It must name something in an "
            "installed module, or in one on PYTHONPATH, in every process"
        ) from error
