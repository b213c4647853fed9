"""The evaluation panel: which tasks were played, how they ended, and a hash that two runs on the same panel share."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from rllib_gigpo.columns import ENDING, ENTERED_AT, GROUP_ID, TASK, TASK_ID
from rllib_gigpo.env_runners.panel_hash import panel_hash
from rllib_gigpo.env_runners.trajectories import by_trajectory, env_steps, score, total_return, won


@dataclass(frozen=True)
class EvaluationPanel:
    """Outcomes of one evaluation.

    Attributes:
        outcomes: One per task that was played to its end: task, task_id, won, return, length, ending,
            and score where the environment tells one.
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
        """The panel of `tasks` and the episodes of the trajectories, one a task, that were played on it."""
        trajectories = by_trajectory(episodes)
        first_observations = {t[0].get_infos(0)[GROUP_ID]: _first_observation(t) for t in trajectories}
        digest = panel_hash(env, env_config, tasks, [first_observations.get(i) for i in range(len(tasks))])
        return cls([_outcome(trajectory) for trajectory in trajectories], len(tasks), digest)

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


def _first_observation(trajectory: Sequence[SingleAgentEpisode]) -> Any:
    """What `reset` showed: a text, or of several agents those that it showed anything, by agent."""
    if trajectory[0].agent_id is None:
        return trajectory[0].get_observations(0)
    return {e.agent_id: e.get_observations(0) for e in trajectory if e.get_infos(0)[ENTERED_AT] == 0}


def _outcome(trajectory: Sequence[SingleAgentEpisode]) -> dict[str, Any]:
    start, last = trajectory[0].get_infos(0), trajectory[0].get_infos(-1)
    scored = score(trajectory)
    return {
        "task": start[TASK],
        "task_id": start.get(TASK_ID),
        "won": won(trajectory),
        **({} if scored is None else {"score": scored}),
        "return": total_return(trajectory),
        "length": env_steps(trajectory),
        "ending": last[ENDING],
    }
