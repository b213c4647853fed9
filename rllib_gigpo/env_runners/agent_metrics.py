"""Numbers of one iteration's rollouts per agent and per module, in multi-agent environments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from rllib_gigpo.columns import IS_ACTION_VALID

# Counter, by agent, of the trajectories in which it never acted.
_AGENTS, _SILENT = "agents/", "/silent_trajectories"


def silent_trajectories(agent_id: str) -> str:
    """Name of the counter of the trajectories in which the agent never acted."""
    return f"{_AGENTS}{agent_id}{_SILENT}"


def agent_metrics(episodes: Sequence[SingleAgentEpisode], counts: Counter[str]) -> dict[str, float]:
    """Metrics by agent (steps, return_mean over the trajectories in which it acted, invalid_action_share,
    silent_trajectories) and by module (steps, and return_mean of whom it acted for); empty in single-agent
    environments."""
    metrics: dict[str, float] = {}
    of_agent: dict[str, list[SingleAgentEpisode]] = {}
    of_module: dict[str, list[SingleAgentEpisode]] = {}
    for episode in episodes:
        if episode.agent_id is not None:
            of_agent.setdefault(episode.agent_id, []).append(episode)
            of_module.setdefault(episode.module_id, []).append(episode)
    for module_id, own in of_module.items():
        metrics |= {
            f"modules/{module_id}/steps": float(sum(len(episode) for episode in own)),
            f"modules/{module_id}/return_mean": float(np.mean([episode.get_return() for episode in own])),
        }
    for agent_id, own in of_agent.items():
        valid = [episode.get_infos(t + 1)[IS_ACTION_VALID] for episode in own for t in range(len(episode))]
        metrics |= {
            f"{_AGENTS}{agent_id}/steps": float(len(valid)),
            f"{_AGENTS}{agent_id}/return_mean": float(np.mean([episode.get_return() for episode in own])),
            f"{_AGENTS}{agent_id}/invalid_action_share": 1.0 - float(np.mean(valid)),
            silent_trajectories(agent_id): float(counts[silent_trajectories(agent_id)]),
        }
    for agent_id in silent_agents(episodes, counts):
        metrics[f"{_AGENTS}{agent_id}/steps"] = 0.0
    return metrics


def silent_agents(episodes: Sequence[SingleAgentEpisode], counts: Counter[str]) -> list[str]:
    """The agents that acted in none of the trajectories."""
    acted = {episode.agent_id for episode in episodes}
    agents = [name[len(_AGENTS) : -len(_SILENT)] for name, n in counts.items() if n and name.endswith(_SILENT)]
    return [agent_id for agent_id in agents if agent_id not in acted]
