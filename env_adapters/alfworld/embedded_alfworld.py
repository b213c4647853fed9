"""Builds the embedded model of ALFWorldTiny from that of Household.

    python -m rllib_gigpo.env_adapters.alfworld.embedded_alfworld OUT

How it is warmed up, and on what, says `env_adapters/warm_up.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from itertools import count
from pathlib import Path

from rllib_gigpo.env_adapters.alfworld import ALFWORLD_TINY, COMMANDS_LEFT_OUT
from rllib_gigpo.env_adapters.alfworld.expert import Expert
from rllib_gigpo.env_adapters.alfworld.tiny import ALFWorldTiny
from rllib_gigpo.env_adapters.demonstrations import Turn
from rllib_gigpo.env_adapters.household import HOUSEHOLD
from rllib_gigpo.env_adapters.warm_up import WarmUp, build

# The thoughts are Household's, and so is what they are read from at the end of the prompt, the task. Some fifty objects
# and eighteen kinds of receptacles, each seldom: from nothing, a model would take far longer to learn to copy them.
WARM_UP = WarmUp(
    donor=HOUSEHOLD.embedded_model,
    reading_steps=300,
    reading_learning_rate=3e-3,
    weak_expert_probability=0.35,
    weak_steps=120,
    weak_learning_rate=2e-3,
    episodes=300,
    weak_episodes=300,
    rows_per_situation=500,
    vocab_size=680,
)


def game(task: int) -> Generator[Turn, str, None]:
    """A game of ALFWorldTiny, for demonstrations, in a room that neither training nor evaluation plays in."""
    env = ALFWorldTiny(split="valid_seen")
    observation, info = env.reset(options={"task": task})
    expert = Expert(info["task_description"], info["admissible_actions"])
    for step in count():
        command = yield Turn(
            observation=observation,
            task=info["task_description"],
            step=step,
            thought=expert.thought(),
            situation=expert.situation(),
            expert_actions=expert.actions(),
            possible_actions=[action for action in info["admissible_actions"] if action not in COMMANDS_LEFT_OUT],
        )
        observation, _, terminated, truncated, info = env.step(command)
        expert.follow(command, info["admissible_actions"])
        if terminated or truncated:
            return env.close()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: python -m {__spec__.name} OUT")
    build(Path(sys.argv[1]), game, ALFWORLD_TINY.agent_format, WARM_UP)
