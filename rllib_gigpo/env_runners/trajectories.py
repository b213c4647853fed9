"""Trajectories of an environment, whether they are an episode each or one for every agent that acted."""

from __future__ import annotations

from collections.abc import Sequence

from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from rllib_gigpo.columns import ENDING, ENV_STEPS, SCORE, WON
from rllib_gigpo.env_runners import endings


def by_trajectory(episodes: Sequence[SingleAgentEpisode]) -> list[list[SingleAgentEpisode]]:
    """The episodes of each trajectory of a rollout, in order: one, or of several agents one each."""
    trajectories: dict[str, list[SingleAgentEpisode]] = {}
    for episode in episodes:
        trajectories.setdefault(episode.multi_agent_episode_id or episode.id_, []).append(episode)
    return list(trajectories.values())


def won(trajectory: Sequence[SingleAgentEpisode]) -> bool:
    """Whether a finished trajectory ended as won."""
    info = trajectory[0].get_infos(-1)
    return bool(info[WON]) and info[ENDING] == endings.WON


def score(trajectory: Sequence[SingleAgentEpisode]) -> float | None:
    """How well it was done, from 0 to 1; None where the environment does not say."""
    found = trajectory[0].get_infos(-1).get(SCORE)
    return None if found is None else float(found)


def total_return(trajectory: Sequence[SingleAgentEpisode]) -> float:
    """Undiscounted return, summed over the agents."""
    return sum(float(episode.get_return()) for episode in trajectory)


def env_steps(trajectory: Sequence[SingleAgentEpisode]) -> int:
    """Steps of the environment."""
    steps: int = trajectory[0].get_infos(-1).get(ENV_STEPS, len(trajectory[0]))
    return steps
