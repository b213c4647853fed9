"""What an env runner answers to the driver; a `Failure` is an answer too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from ray.exceptions import RayActorError
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from rllib_gigpo.env_runners import endings
from rllib_gigpo.env_runners.group_rollout import FAILURE_KINDS
from rllib_gigpo.failures import Failure, FailureKind, failure_of

RUNNER_DIED = "RunnerDied"


@dataclass(frozen=True)
class Rollout:
    """What came out of a plan, or of a runner's part of it.

    Attributes:
        episodes: Members of a group side by side and in order, groups in the plan's order.
        counts: What was counted on the way (see `GroupRollout.take_counts`).
        metrics: What each runner's MetricsLogger reduced.
        last_failure: Why the last member that failed did so; None where none did.
    """

    episodes: list[SingleAgentEpisode]
    counts: Counter[str]
    metrics: list[dict[str, Any]]
    last_failure: str | None = None

    @classmethod
    def merged(cls, rollouts: Sequence[Rollout]) -> Rollout:
        """What came out of all of `rollouts`, in their order."""
        return cls(
            episodes=[episode for rollout in rollouts for episode in rollout.episodes],
            counts=sum((rollout.counts for rollout in rollouts), Counter()),
            metrics=[metrics for rollout in rollouts for metrics in rollout.metrics],
            last_failure=next((rollout.last_failure for rollout in reversed(rollouts) if rollout.last_failure), None),
        )

    def check_any_finished(self, num_trajectories: int, *, services_worked: bool = False) -> None:
        """Raises RuntimeError where all trajectories that were started, so many, have failed: in further rollouts they
        would too.

        Where trajectories have finished before (`services_worked`), a service that does not answer is no such reason,
        nor is a failure of the infrastructure: both may come back.
        """
        reasons = [endings.ENV_FAILURE, endings.PROMPT_OVERFLOW]
        if not services_worked:
            reasons.append(endings.SERVICE_FAILURE)
        failed = sum(self.counts[f"endings/{ending}"] for ending in reasons)
        may_come_back = services_worked and self.counts[f"{FAILURE_KINDS}/{FailureKind.INFRASTRUCTURE}"] > 0
        if not self.episodes and failed == num_trajectories and not may_come_back:
            raise RuntimeError(f"all {failed} trajectories of a rollout failed; the last cause: {self.last_failure}")


@dataclass(frozen=True)
class ServedWeights:
    """What an engine serves after a delivery.

    Attributes:
        version: Of the weights.
        probe_logp: float32[n - 1], log-probs of the probe's n tokens behind the first.
    """

    version: int
    probe_logp: np.ndarray


def failed_call(error: BaseException) -> Failure:
    """The failure of a call of a runner that Ray could not complete; RUNNER_DIED where the runner's process is gone."""
    failure = failure_of(error)
    return replace(failure, cause=RUNNER_DIED, details=str(error)) if isinstance(error, RayActorError) else failure
