"""Builds the embedded model of RelayHousehold from that of Household: one model for both agents.

    python -m rllib_gigpo.env_adapters.multi_agent.embedded_relay_household OUT

How it is warmed up, and on what, says `env_adapters/warm_up.py`.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Generator
from pathlib import Path

from rllib_gigpo.env_adapters.demonstrations import Turn
from rllib_gigpo.env_adapters.household import HOUSEHOLD
from rllib_gigpo.env_adapters.household.expert import turn_in
from rllib_gigpo.env_adapters.multi_agent import RELAY_HOUSEHOLD
from rllib_gigpo.env_adapters.multi_agent.relay_household import RelayHousehold
from rllib_gigpo.env_adapters.warm_up import WarmUp, build

# Household's embedded model tells the object that is wanted from another one. Here that is hard to learn from nothing:
# wrong objects are rare, and a model that reads "something is held" as "it is held" is mostly right.
WARM_UP = WarmUp(
    donor=HOUSEHOLD.embedded_model,
    reading_steps=300,
    reading_learning_rate=2e-3,
    weak_expert_probability=0.4,
    weak_steps=150,
    weak_learning_rate=1.5e-3,
    rows_per_situation=1200,
)


def game(task: int) -> Generator[Turn, str, None]:
    """A game of RelayHousehold, the turns of both agents in one row, for demonstrations."""
    env = RelayHousehold()
    observations, infos = env.reset(options={"task": task})
    acts: Counter[str] = Counter()
    while True:
        (agent,) = observations
        room = env.relay.rooms[agent]
        turn = turn_in(room, observation=observations[agent], task=infos[agent]["task_description"], step=acts[agent])
        wanted = room.layout.object_to_put
        wrong = room.held not in (None, wanted), any(name != wanted for name in room.visible)
        command = yield turn._replace(situation=(agent, turn.situation, wrong))
        acts[agent] += 1
        observations, _, terminateds, truncateds, infos = env.step({agent: command})
        if terminateds["__all__"] or truncateds["__all__"]:
            return


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: python -m {__spec__.name} OUT")
    build(Path(sys.argv[1]), game, RELAY_HOUSEHOLD.agent_format, WARM_UP)
