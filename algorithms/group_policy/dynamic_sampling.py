"""Dynamic sampling (DAPO, arXiv 2503.14476): further groups are rolled out in place of those without a signal."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger

from rllib_gigpo.columns import GROUP_ID
from rllib_gigpo.env_runners.runner_answers import Rollout
from rllib_gigpo.rows import StepRows


@dataclass(frozen=True)
class DynamicSample:
    """What the rounds of one iteration gave.

    Attributes:
        episodes: Of the groups to train on, by group id, members side by side.
        rollout: Everything that was sampled, over all rounds.
        metrics: num_groups (to train on), sampling_rounds, sampled_groups (started in all rounds),
            groups_without_signal, surplus_groups (with a signal, beyond those that were wanted) and missing_groups
            (wanted, and not found in the last round). Every sampled group is in num_groups, groups_without_signal,
            surplus_groups, or in the dropped groups of `rollout.counts`.
    """

    episodes: list[SingleAgentEpisode]
    rollout: Rollout
    metrics: dict[str, float]


def sample_until_full(
    roll_out: Callable[[int], Rollout],
    find_signal: Callable[[list[SingleAgentEpisode]], Collection[int]],
    *,
    services_worked: Callable[[], bool] = lambda: False,
    num_groups: int,
    group_size: int,
    max_rounds: int,
) -> DynamicSample:
    """Rolls groups out until `num_groups` of them have a signal, in at most `max_rounds` rounds.

    The groups with the lowest ids are kept, those of the first tasks: which ones are kept must not depend on which
    finished first, or short trajectories would be preferred.

    Args:
        roll_out: Rolls out so many new groups, with ids above all earlier ones.
        find_signal: Ids of those groups, among the ones of the episodes, that are worth training on.
        services_worked: Whether a trajectory of any rollout so far has finished, see `Rollout.check_any_finished`.
        num_groups: How many are wanted.
        group_size: Members per group.
        max_rounds: At least 1.

    Raises:
        RuntimeError: All trajectories of all rounds so far have failed.
    """
    everything = Rollout.merged([])
    found: list[int] = []
    rounds = sampled = 0
    while len(found) < num_groups and rounds < max_rounds:
        request = next_request(num_groups, found=len(found), sampled=sampled)
        rollout = roll_out(request)
        rounds += 1
        sampled += request
        everything = Rollout.merged([everything, rollout])
        everything.check_any_finished(sampled * group_size, services_worked=services_worked())
        if rollout.episodes:
            found += sorted(find_signal(rollout.episodes))

    kept = set(found[:num_groups])
    finished = {_group_id(episode) for episode in everything.episodes}
    return DynamicSample(
        episodes=[episode for episode in everything.episodes if _group_id(episode) in kept],
        rollout=everything,
        metrics={
            "num_groups": float(len(kept)),
            "sampling_rounds": float(rounds),
            "sampled_groups": float(sampled),
            "groups_without_signal": float(len(finished) - len(found)),
            "surplus_groups": float(len(found) - len(kept)),
            "missing_groups": float(num_groups - len(kept)),
        },
    )


def next_request(num_groups: int, *, found: int, sampled: int) -> int:
    """How many groups the next round rolls out: as many as will hold the missing ones if the share with a signal stays
    what it was in this iteration, and never more than the first round's `num_groups`.

    Args:
        num_groups: Groups that are wanted.
        found: Those of the earlier rounds that have a signal, fewer than `num_groups`.
        sampled: Those that the earlier rounds rolled out.
    """
    if found == 0:
        return num_groups
    missing = num_groups - found
    return min(num_groups, -(-missing * sampled // found))


def groups_with_signal(rows: StepRows, compute_advantages: Callable[[StepRows], np.ndarray]) -> set[int]:
    """Ids of the groups whose advantages (float32[T]), computed from the group alone, are not all 0.

    Alone: where an algorithm normalizes over the batch, no group of a mixed batch has advantages of 0, and the batch is
    not complete yet.
    """
    return {
        int(group_id)
        for group_id in np.unique(rows.group_ids)
        if np.any(compute_advantages(rows.take(np.flatnonzero(rows.group_ids == group_id))) != 0)
    }


def connected_apart(connector: ConnectorV2, episodes: list[SingleAgentEpisode]) -> dict[str, Any]:
    """The batch that `connector` makes of `episodes`, which stay as they are, as do its state and the metrics.

    The groups that are trained on go through the connector again, and a piece that changes rewards or counts episodes
    must do so once.
    """
    state = copy.deepcopy(connector.get_state())
    try:
        copies = copy.deepcopy(episodes)
        return connector(rl_module=None, batch={}, episodes=copies, shared_data={}, metrics=MetricsLogger(root=False))
    finally:
        connector.set_state(state)


def _group_id(episode: SingleAgentEpisode) -> int:
    return episode.get_infos(0)[GROUP_ID]
