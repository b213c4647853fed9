"""Builds the embedded model of Household from nothing.

    python -m rllib_gigpo.env_adapters.household.embedded_household OUT

How it is warmed up, and on what, says `env_adapters/warm_up.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from itertools import count
from pathlib import Path

from rllib_gigpo.env_adapters.demonstrations import Turn
from rllib_gigpo.env_adapters.household import HOUSEHOLD
from rllib_gigpo.env_adapters.household.expert import turn_in
from rllib_gigpo.env_adapters.household.household import Household
from rllib_gigpo.env_adapters.warm_up import WarmUp, build

WARM_UP = WarmUp(
    reading_steps=700,
    reading_learning_rate=3e-3,
    weak_expert_probability=0.35,
    weak_steps=250,
    weak_learning_rate=1.5e-3,
)


def game(task: int) -> Generator[Turn, str, None]:
    """A game of Household, for demonstrations."""
    env = Household()
    observation, info = env.reset(options={"task": task})
    for step in count():
        command = yield turn_in(env.room, observation=observation, task=info["task_description"], step=step)
        observation, _, terminated, truncated, info = env.step(command)
        if terminated or truncated:
            return


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: python -m {__spec__.name} OUT")
    build(Path(sys.argv[1]), game, HOUSEHOLD.agent_format, WARM_UP)
