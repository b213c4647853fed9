"""Numbers of one iteration's rollouts, from the episodes and counts that the runners return."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from rllib_gigpo.columns import GROUP_ID, IS_ACTION_VALID, RESPONSE_IDS
from rllib_gigpo.env_runners import endings
from rllib_gigpo.env_runners.agent_metrics import agent_metrics
from rllib_gigpo.env_runners.group_rollout import (
    DROPPED_EPISODES,
    DROPPED_GROUPS,
    FAILURE_KINDS,
    RESPONSE_CUT,
    TRUNCATED_PROMPTS,
)
from rllib_gigpo.env_runners.trajectories import by_trajectory, env_steps, score, total_return, won
from rllib_gigpo.failures import FailureKind

# Counters of groups that were lost with their runner, and of their members by cause.
ROLLOUT_FAILURES = "rollout_failures"
ROLLOUT_FAILURE_CAUSES = "rollout_failure_causes"

# Of an iteration's rollout groups: all of them, and those that went on to credit assignment. The rest was dropped.
PLANNED_GROUPS = "planned_groups"
KEPT_GROUPS = "kept_groups"
GROUP_COUNTS = (PLANNED_GROUPS, KEPT_GROUPS, DROPPED_GROUPS)

_ALWAYS_REPORTED = (
    *(f"endings/{ending}" for ending in endings.ENDINGS),
    *(f"{FAILURE_KINDS}/{kind}" for kind in FailureKind),
    ROLLOUT_FAILURES,
    TRUNCATED_PROMPTS,
    RESPONSE_CUT,
    PLANNED_GROUPS,
    KEPT_GROUPS,
    DROPPED_GROUPS,
    DROPPED_EPISODES,
)


def rollout_metrics(episodes: Sequence[SingleAgentEpisode], counts: Counter[str]) -> dict[str, float]:
    """Metrics of all episodes; keys with "/" are nested. Means are left out where there is nothing to average.

    success_rate is the share of the trajectories that won, and episode_… are of trajectories too, with the returns of
    all agents summed; response_tokens_mean is per response; invalid_action_share is the share of the actions that were
    invalid; score_mean is there where the environment scores; the counts are of the whole iteration.
    """
    metrics: dict[str, float] = {name: float(counts.get(name, 0)) for name in _ALWAYS_REPORTED}
    metrics |= {name: float(count) for name, count in counts.items()}
    if not episodes:
        return metrics

    trajectories = by_trajectory(episodes)
    lengths = np.array([env_steps(trajectory) for trajectory in trajectories])
    scores = [found for trajectory in trajectories if (found := score(trajectory)) is not None]
    returns = np.array([total_return(trajectory) for trajectory in trajectories])
    response_lengths = [len(ids) for episode in episodes for ids in episode.get_extra_model_outputs(RESPONSE_IDS)]
    invalid = [not episode.get_infos(t + 1)[IS_ACTION_VALID] for episode in episodes for t in range(len(episode))]
    group_sizes = np.array(list(Counter(trajectory[0].get_infos(0)[GROUP_ID] for trajectory in trajectories).values()))
    return metrics | {
        "success_rate": float(np.mean([won(trajectory) for trajectory in trajectories])),
        "episode_return_mean": float(returns.mean()),
        "episode_return_min": float(returns.min()),
        "episode_return_max": float(returns.max()),
        "episode_len_mean": float(lengths.mean()),
        "episode_len_max": float(lengths.max()),
        "response_tokens_mean": float(np.mean(response_lengths)),
        "response_tokens_max": float(np.max(response_lengths)),
        "invalid_action_share": float(np.mean(invalid)),
        KEPT_GROUPS: float(len(group_sizes)),
        "group_size_mean": float(group_sizes.mean()),
        **({"score_mean": float(np.mean(scores))} if scores else {}),
        **agent_metrics(episodes, counts),
    }
