"""Numbers of one iteration's rollouts, from the episodes and counts that the runners return."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from rllib_gigpo.columns import ENDING, GROUP_ID, IS_ACTION_VALID, RESPONSE_IDS, WON
from rllib_gigpo.env_runners import endings
from rllib_gigpo.env_runners.group_rollout import DROPPED_EPISODES, DROPPED_GROUPS, RESPONSE_CUT, TRUNCATED_PROMPTS

# Counters of groups that were lost with their runner, and of their members by cause.
ROLLOUT_FAILURES = "rollout_failures"
ROLLOUT_FAILURE_CAUSES = "rollout_failure_causes"

_ALWAYS_REPORTED = (
    *(f"endings/{ending}" for ending in endings.ENDINGS),
    ROLLOUT_FAILURES,
    TRUNCATED_PROMPTS,
    RESPONSE_CUT,
    DROPPED_GROUPS,
    DROPPED_EPISODES,
)


def rollout_metrics(episodes: Sequence[SingleAgentEpisode], counts: Counter[str]) -> dict[str, float]:
    """Metrics of E episodes; keys with "/" are nested. Means are left out where there is nothing to average.

    success_rate is the share of the episodes that won; response_tokens_mean is per step; invalid_action_share is the
    share of the steps whose action was invalid; the counts are of the whole iteration.
    """
    metrics: dict[str, float] = {name: float(counts.get(name, 0)) for name in _ALWAYS_REPORTED}
    metrics |= {name: float(count) for name, count in counts.items()}
    if not episodes:
        return metrics

    lengths = np.array([len(episode) for episode in episodes])
    returns = np.array([episode.get_return() for episode in episodes])
    response_lengths = [len(ids) for episode in episodes for ids in episode.get_extra_model_outputs(RESPONSE_IDS)]
    invalid = [not episode.get_infos(t + 1)[IS_ACTION_VALID] for episode in episodes for t in range(len(episode))]
    group_sizes = np.array(list(Counter(episode.get_infos(0)[GROUP_ID] for episode in episodes).values()))
    return metrics | {
        "success_rate": float(np.mean([won(episode) for episode in episodes])),
        "episode_return_mean": float(returns.mean()),
        "episode_return_min": float(returns.min()),
        "episode_return_max": float(returns.max()),
        "episode_len_mean": float(lengths.mean()),
        "episode_len_max": float(lengths.max()),
        "response_tokens_mean": float(np.mean(response_lengths)),
        "response_tokens_max": float(np.max(response_lengths)),
        "invalid_action_share": float(np.mean(invalid)),
        "group_size_mean": float(group_sizes.mean()),
    }


def won(episode: SingleAgentEpisode) -> bool:
    """Whether a finished episode ended as won."""
    info = episode.get_infos(-1)
    return bool(info[WON]) and info[ENDING] == endings.WON
