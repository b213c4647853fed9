"""Builds the embedded model of RelayHousehold from nothing: one model for both agents.

python -m rllib_gigpo.env_adapters.multi_agent.embedded_relay_household OUT
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Generator
from pathlib import Path

from rllib_gigpo.env_adapters.demonstrations import Turn
from rllib_gigpo.env_adapters.household.expert import turn_in
from rllib_gigpo.env_adapters.multi_agent import RELAY_HOUSEHOLD
from rllib_gigpo.env_adapters.multi_agent.relay_household import RelayHousehold
from rllib_gigpo.env_adapters.warm_up import WarmUp, build

WARM_UP = WarmUp(
    reading_steps=700,
    reading_learning_rate=3e-3,
    weak_expert_probability=0.4,
    weak_steps=250,
    weak_learning_rate=1.5e-3,
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
        # Wrong objects are rarer than in Household, and without them "something is held" reads as well as "it is held".
        others = {room.held, *room.visible} - {room.layout.object_to_put, None}
        command = yield turn._replace(situation=(agent, turn.situation, bool(others)))
        acts[agent] += 1
        observations, _, terminateds, truncateds, infos = env.step({agent: command})
        if terminateds["__all__"] or truncateds["__all__"]:
            return


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: python -m {__spec__.name} OUT")
    build(Path(sys.argv[1]), game, RELAY_HOUSEHOLD.agent_format, WARM_UP)
