"""Levels of Sokoban that an expert comments on, in text or in pictures, for demonstrations."""

from __future__ import annotations

from collections.abc import Generator
from itertools import count

from rllib_gigpo.env_adapters.demonstrations import Turn
from rllib_gigpo.env_adapters.sokoban.expert import expert_actions, moves_to_solution, thought
from rllib_gigpo.env_adapters.sokoban.sokoban import Sokoban


def demonstrated_level(env: Sokoban, task: int) -> Generator[Turn, str, None]:
    """The level of `task` in `env`, for a model that is shown no task and no history."""
    observation, info = env.reset(options={"task": task})
    board = env.level.board
    distances = moves_to_solution(board, env.position)
    for step in count():
        action = yield Turn(
            observation=observation,
            task=None,
            step=step,
            thought=thought(board, env.position),
            situation=distances.get(env.position),
            expert_actions=expert_actions(board, env.position, distances),
            possible_actions=info["admissible_actions"],
        )
        observation, _, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            return
