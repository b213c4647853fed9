"""What an iteration rolls out: groups with explicit ids, tasks and seeds, decided by the driver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from rllib_gigpo.inference.protocol import SamplingParams
from rllib_gigpo.seeds import derive_seed


@dataclass(frozen=True)
class GroupPlan:
    """One rollout group: `group_size` trajectories of one task from one initial state.

    Attributes:
        group_id: Unique within a run.
        task: Given to every member's `reset(options={"task": task})`.
        env_seed: Given to every member's `reset(seed=env_seed)`.
        sampling_seed: The seed of each request derives from it, the member, the step and, of several, the agent.
        in_evaluation: Whether it is of an evaluation panel.
    """

    group_id: int
    task: Any
    env_seed: int
    sampling_seed: int
    in_evaluation: bool = False

    def request_seed(self, member: int, step: int, agent_id: str | None = None) -> int:
        """Seed of the response that `member`, or its agent `agent_id`, samples at `step` of the environment."""
        agent = () if agent_id is None else (agent_id,)
        return derive_seed(self.sampling_seed, member, step, *agent)


def evaluation_groups(tasks: Sequence[Any], seed: int) -> tuple[GroupPlan, ...]:
    """The tasks of an evaluation panel, a group each, as played by a policy of that run seed."""
    return tuple(
        GroupPlan(
            group_id=index,
            task=task,
            env_seed=derive_seed("evaluation", index),
            sampling_seed=derive_seed(seed, "evaluation", index),
            in_evaluation=True,
        )
        for index, task in enumerate(tasks)
    )


@dataclass(frozen=True)
class TrajectoryBudget:
    """What a trajectory may take before it is cut: the tail of a rollout, in which a few long ones keep all others
    waiting. Never a matter of time, which would make results depend on the machine.

    Attributes:
        max_steps: Steps of the environment; None for no limit.
        max_tokens: Sampled tokens, of all agents; None for no limit. The step that exceeds them is the last one.
    """

    max_steps: int | None = None
    max_tokens: int | None = None

    def is_spent(self, steps: int, tokens: int) -> bool:
        """Whether a trajectory that has taken so many is to be cut."""
        return (self.max_steps is not None and steps >= self.max_steps) or (
            self.max_tokens is not None and tokens >= self.max_tokens
        )


@dataclass(frozen=True)
class RolloutPlan:
    """Groups to roll out, and how.

    Attributes:
        groups: Whole groups; a group is never split over runners.
        group_size: Members per group.
        min_group_size: A group that keeps fewer members than this is dropped, and counted.
        sampling: How responses are sampled.
        explore: False in evaluation; connectors receive it.
        budget: Of each trajectory.
    """

    groups: tuple[GroupPlan, ...]
    group_size: int
    min_group_size: int
    sampling: SamplingParams
    explore: bool = True
    budget: TrajectoryBudget = TrajectoryBudget()

    def split(self, num_parts: int) -> list[RolloutPlan]:
        """`num_parts` plans of contiguous whole groups, sizes equal to within one; a part may be empty."""
        bounds = [len(self.groups) * i // num_parts for i in range(num_parts + 1)]
        return [replace(self, groups=self.groups[low:high]) for low, high in pairwise(bounds)]
