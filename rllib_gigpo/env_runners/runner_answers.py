"""What an env runner answers to the driver: failures too are answers, told apart before they leave the runner."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from rllib_gigpo.env_runners import endings
from rllib_gigpo.inference.protocol import EngineDied

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

        A service that does not answer is no such reason if `services_worked` before: it may come back.
        """
        reasons = [endings.ENV_FAILURE, endings.PROMPT_OVERFLOW]
        if not services_worked:
            reasons.append(endings.SERVICE_FAILURE)
        failed = sum(self.counts[f"endings/{ending}"] for ending in reasons)
        if not self.episodes and failed == num_trajectories:
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


@dataclass(frozen=True)
class RunnerFailure:
    """An exception on a runner, or its death.

    Attributes:
        cause: Name of the exception's type; RUNNER_DIED where the process is gone.
        details: Traceback, or what Ray says about the death.
    """

    cause: str
    details: str

    @classmethod
    def of_exception(cls, error: BaseException) -> RunnerFailure:
        """Classified by the exception that started it: an engine wraps what its batch raised."""
        first = error
        while first.__cause__ is not None:
            first = first.__cause__
        return cls(type(first).__name__, "".join(traceback.format_exception(error)))

    @property
    def runner_is_dead(self) -> bool:
        return self.cause == RUNNER_DIED

    @property
    def a_process_died(self) -> bool:
        """The runner's own, or that of its engine: a new one may do better, where an error would come again."""
        return self.cause in (RUNNER_DIED, EngineDied.__name__)
