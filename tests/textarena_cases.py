"""Which tests need the package textarena, an extra."""

from __future__ import annotations

import importlib.util

import pytest

IS_INSTALLED = importlib.util.find_spec("textarena") is not None
needs_textarena = pytest.mark.skipif(not IS_INSTALLED, reason="textarena is an extra that is not installed")
