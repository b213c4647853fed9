"""Builds the embedded model of Sokoban from nothing, for the levels of `EASY_LEVELS`.

    python -m rllib_gigpo.env_adapters.sokoban.embedded_sokoban OUT

How it is warmed up, and on what, says `env_adapters/warm_up.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from pathlib import Path

from rllib_gigpo.env_adapters.demonstrations import Turn
from rllib_gigpo.env_adapters.sokoban import EASY_LEVELS, SOKOBAN
from rllib_gigpo.env_adapters.sokoban.demonstrated_levels import demonstrated_level
from rllib_gigpo.env_adapters.sokoban.sokoban import Sokoban
from rllib_gigpo.env_adapters.warm_up import WarmUp, build

WARM_UP = WarmUp(
    reading_steps=700,
    reading_learning_rate=3e-3,
    weak_expert_probability=0.35,
    weak_steps=150,
    weak_learning_rate=1.5e-3,
)


def game(task: int) -> Generator[Turn, str, None]:
    """A game of Sokoban, for demonstrations."""
    return demonstrated_level(Sokoban(**EASY_LEVELS), task)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: python -m {__spec__.name} OUT")
    build(Path(sys.argv[1]), game, SOKOBAN.agent_format, WARM_UP)
