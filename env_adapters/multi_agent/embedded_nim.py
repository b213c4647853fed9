"""Builds the embedded model of Nim: it reads and answers, and moves at random.

    python -m rllib_gigpo.env_adapters.multi_agent.embedded_nim OUT

Unlike the embedded models of other games it has never seen an expert.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from pathlib import Path

from rllib_gigpo.env_adapters.demonstrations import Turn
from rllib_gigpo.env_adapters.multi_agent import NIM
from rllib_gigpo.env_adapters.multi_agent.nim import Nim
from rllib_gigpo.env_adapters.warm_up import WarmUp, build

# What both parts show is uniform over the moves; `game` says that an expert does not know better.
WARM_UP = WarmUp(
    reading_steps=250,
    reading_learning_rate=3e-3,
    weak_expert_probability=0.0,
    weak_steps=50,
    weak_learning_rate=1e-3,
    episodes=1500,
    rows_per_situation=400,
)


def game(task: int) -> Generator[Turn, str, None]:
    """A game of Nim, the turns of both agents in one row, for demonstrations at random."""
    env = Nim()
    observations, infos = env.reset(options={"task": task})
    step = 0
    while True:
        ((agent, observation),) = observations.items()
        possible = infos[agent]["admissible_actions"]
        move = yield Turn(
            observation=observation,
            task=None,
            step=step // 2,
            thought=f"{env.stones} are left.",
            situation=env.stones,
            expert_actions=possible,
            possible_actions=possible,
        )
        step += 1
        observations, _, terminateds, truncateds, infos = env.step({agent: move})
        if terminateds["__all__"] or truncateds["__all__"]:
            return


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: python -m {__spec__.name} OUT")
    build(Path(sys.argv[1]), game, NIM.agent_format, WARM_UP)
