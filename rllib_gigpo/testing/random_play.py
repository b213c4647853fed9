"""Random play, agent by agent, as the connectors see it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from rllib_gigpo.env_checks.player import Player
from rllib_gigpo.env_checks.recording import choose_actions
from rllib_gigpo.images import ImageStore, stored_observation
from rllib_gigpo.seeds import derive_seed


def moments_before_actions(
    make: Callable[[], Any], task: Any, seed: int, *, max_steps: int, member: int = 0
) -> Iterator[tuple[Any, SingleAgentEpisode]]:
    """(agent, its episode so far), each time that an agent is about to act; the only agent of a `gymnasium.Env` is "".

    Args:
        make: Makes the environment, which is closed at the end.
        task, seed: Of the reset.
        max_steps: The episode is given up after so many.
        member: Members of a group play the same task with other actions.
    """
    player, images = Player(make()), ImageStore()
    rng = np.random.default_rng(derive_seed(seed, "random play", task, member))
    episodes: dict[Any, SingleAgentEpisode] = {}
    actions: dict[Any, str] = {}
    try:
        moment = player.reset(task, seed)
        for step in range(max_steps):
            if moment.ended:
                return
            for agent, shown in moment.observations.items():
                observation, info = stored_observation(shown, images), moment.infos.get(agent, {})
                if agent not in episodes:
                    episodes[agent] = SingleAgentEpisode()
                    episodes[agent].add_env_reset(observation, info)
                else:
                    episodes[agent].add_env_step(observation, actions[agent], 0.0, info)
                yield agent, episodes[agent]
            chosen = choose_actions("random", moment, step, rng)
            actions |= chosen
            moment = player.step(chosen)
    finally:
        player.env.close()
