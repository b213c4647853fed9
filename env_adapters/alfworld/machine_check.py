"""What `rllib doctor` asks about ALFWorld: its packages, and its data."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from rllib_gigpo.env_adapters.alfworld.game_files import GAMES_FOLDER, LAYOUT
from rllib_gigpo.env_adapters.alfworld.packages import DATA_VARIABLE, packages
from rllib_gigpo.env_adapters.alfworld.task_types import SPLITS
from rllib_gigpo.env_checks.check_result import CheckResult, failed, passed, warned

_NAME = "data of ALFWorld"


def check_machine() -> Iterator[CheckResult]:
    """Whether the benchmark's own games are there.

    Raises:
        ImportError: The extra is not installed.
    """
    packages()
    named = os.environ.get(DATA_VARIABLE)
    if not named:
        yield warned(
            _NAME,
            f"{DATA_VARIABLE} is not set: small games are made up on the spot",
            f"for the benchmark's own games: alfworld-download, then export {DATA_VARIABLE}=~/.cache/alfworld",
        )
        return
    folder = Path(named).expanduser()
    missing = [split for split in SPLITS if not (folder / GAMES_FOLDER / split).is_dir()]
    if missing:
        yield failed(_NAME, f"{DATA_VARIABLE}={named} lacks {', '.join(missing)}", f"it must hold {LAYOUT}")
        return
    tasks = {split: sum(1 for _ in (folder / GAMES_FOLDER / split).iterdir()) for split in SPLITS}
    yield passed(_NAME, f"{folder}, tasks: " + ", ".join(f"{split} {count}" for split, count in tasks.items()))
