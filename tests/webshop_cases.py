"""What the tests of WebShop share. They skip where the extra is not installed; `make venv` installs it."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

needs_webshop = pytest.mark.skipif(
    find_spec("bm25s") is None or find_spec("Stemmer") is None,
    reason='the extra is not installed: pip install "rllib-gigpo[webshop]"',
)
