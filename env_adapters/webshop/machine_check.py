"""What `rllib doctor` asks about WebShop: its packages, and its data."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from rllib_gigpo.env_adapters.webshop.data_files import DATA_VARIABLE, LAYOUT, data_files
from rllib_gigpo.env_adapters.webshop.packages import packages
from rllib_gigpo.env_checks.check_result import CheckResult, failed, passed, warned

_NAME = "data of WebShop"


def check_machine() -> Iterator[CheckResult]:
    """Whether the benchmark's own products are there.

    Raises:
        ImportError: The extra is not installed.
    """
    packages()
    named = os.environ.get(DATA_VARIABLE)
    if not named:
        fix = f"for the benchmark's own: download WebShop's data, then export {DATA_VARIABLE}=<its folder>"
        yield warned(_NAME, f"{DATA_VARIABLE} is not set: a catalogue is made up on the spot", fix)
        return
    try:
        files = data_files(Path(named).expanduser(), goal_kind="synthetic", num_products=None)
    except FileNotFoundError as error:
        yield failed(_NAME, str(error), f"it must hold {LAYOUT}")
        return
    yield passed(_NAME, f"{files.items} and {files.attributes.name}")
