"""What the tests of ALFWorld share. They skip where the extra is not installed; `make test` installs it."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

needs_alfworld = pytest.mark.skipif(
    find_spec("fast_downward") is None or find_spec("alfworld") is None,
    reason='the extra is not installed: pip install "rllib-gigpo[alfworld]"',
)


def play_at_random(env: Any, info: dict[str, Any], steps: int, seed: int) -> list[Any]:
    """The answers to up to `steps` random admissible actions, from a reset's info on."""
    rng, answers = np.random.default_rng(seed), []
    for _ in range(steps):
        actions = info["admissible_actions"]
        answers.append(env.step(actions[rng.integers(len(actions))]))
        info = answers[-1][4]
        if answers[-1][2] or answers[-1][3]:
            break
    return answers
