"""The evaluation panel: which tasks were played, how they ended, and a hash that two runs on the same panel share."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from rllib_gigpo.columns import ENDING, GROUP_ID, TASK, TASK_ID
from rllib_gigpo.env_runners.rollout_metrics import won


@dataclass(frozen=True)
class EvaluationPanel:
    """Outcomes of one evaluation.

    Attributes:
        outcomes: One per task that was played to its end: task, task_id, won, return, length, ending.
        size: Tasks on the panel, failed ones included.
        hash: Equal for two evaluations of the same tasks of the same environment that start from the same observations.
    """

    outcomes: list[dict[str, Any]]
    size: int
    hash: str

    @classmethod
    def from_episodes(
        cls, episodes: Sequence[SingleAgentEpisode], tasks: Sequence[Any], *, env: str, env_config: Mapping[str, Any]
    ) -> EvaluationPanel:
        """The panel of `tasks` and the episodes, one a task, that were played on it."""
        first_observations = {e.get_infos(0)[GROUP_ID]: e.get_observations(0) for e in episodes}
        content = [env, dict(env_config), list(tasks), [first_observations.get(i) for i in range(len(tasks))]]
        digest = hashlib.blake2b(json.dumps(content, default=repr, sort_keys=True).encode(), digest_size=8)
        return cls([_outcome(episode) for episode in episodes], len(tasks), digest.hexdigest())

    def metrics(self) -> dict[str, Any]:
        """panel_size, panel_hash, and success_rate with its binomial standard error, over all tasks of the panel: one
        that could not be played to its end is not won."""
        rate = sum(outcome["won"] for outcome in self.outcomes) / self.size
        return {
            "panel_size": self.size,
            "panel_hash": self.hash,
            "success_rate": rate,
            "success_rate_stderr": math.sqrt(rate * (1 - rate) / self.size),
        }

    def to_json(self) -> dict[str, Any]:
        """What is written beside a checkpoint."""
        return {"panel_hash": self.hash, "panel_size": self.size, "outcomes": self.outcomes}


def _outcome(episode: SingleAgentEpisode) -> dict[str, Any]:
    start, last = episode.get_infos(0), episode.get_infos(-1)
    return {
        "task": start[TASK],
        "task_id": start.get(TASK_ID),
        "won": won(episode),
        "return": float(episode.get_return()),
        "length": len(episode),
        "ending": last[ENDING],
    }
