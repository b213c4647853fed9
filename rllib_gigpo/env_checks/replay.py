"""Plays tasks with actions that follow from a seed, and writes down what was shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rllib_gigpo.env_checks.player import Player
from rllib_gigpo.env_checks.recording import choose_actions
from rllib_gigpo.seeds import derive_seed


def replay(make: Callable[[], Any], tasks: Sequence[int], seed: int, steps: int) -> list[str]:
    """For each task what `reset` and up to `steps` random steps show, a line each: observations, and after a step
    rewards and ending."""
    player = Player(make())
    try:
        return ["\n".join(_shown(player, task, seed, steps)) for task in tasks]
    finally:
        player.env.close()


def _shown(player: Player, task: int, seed: int, steps: int) -> list[str]:
    moment = player.reset(task, seed)
    lines = [moment.start()]
    rng = np.random.default_rng(derive_seed(seed, "replay", task))
    for step in range(steps):
        if moment.ended:
            break
        moment = player.step(choose_actions("random", moment, step, rng))
        rewards = {repr(agent): float(reward) for agent, reward in moment.rewards.items()}
        lines.append(f"{moment.start()} {sorted(rewards.items())} {moment.terminated} {moment.truncated}")
    return lines
