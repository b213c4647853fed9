"""Finds installed packages that cannot be loaded and would take every transformers model down with them."""

from __future__ import annotations

import importlib
import importlib.util
import sys

_OPTIONAL_COMPANIONS = ("torchvision", "torchaudio")


def check_torchvision() -> None:
    """Raises where torchvision or torchaudio is installed but cannot be imported.

    Transformers imports them as soon as they are installed, also for models that only read text. On a machine without a
    GPU a package index may pair CUDA builds of them with a CPU build of torch; then no model class can be imported, and
    the message names none of this.

    Raises:
        ImportError: One of them is broken; the message holds the command that removes it.
    """
    for name in _OPTIONAL_COMPANIONS:
        if name in sys.modules or importlib.util.find_spec(name) is None:
            continue
        try:
            importlib.import_module(name)
        # A build for another torch also fails with RuntimeError (unknown operator) or OSError (no CUDA library).
        except (ImportError, RuntimeError, OSError, AttributeError) as error:
            raise ImportError(
                f"{name} is installed but does not load ({type(error).__name__}: {error}), so that transformers cannot "
                f"import any model. It was probably built for another torch. Remove it with `{sys.executable} -m pip "
                f"uninstall -y {' '.join(_OPTIONAL_COMPANIONS)}`, or install the build that belongs to your torch."
            ) from error
