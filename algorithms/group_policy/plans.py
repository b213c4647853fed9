"""What is rolled out: groups of the task stream for training, the panel for evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rllib_gigpo.env_runners.rollout_plan import GroupPlan, RolloutPlan, evaluation_groups
from rllib_gigpo.env_runners.task_stream import TaskStream
from rllib_gigpo.seeds import derive_seed

if TYPE_CHECKING:
    from rllib_gigpo.algorithms.group_policy.group_policy_config import GroupPolicyConfig


def training_plan(config: GroupPolicyConfig, tasks: TaskStream, seed: int, cursors: range) -> RolloutPlan:
    """The groups at `cursors` of the task stream; all of it depends on the run's seed and the cursors alone."""
    return RolloutPlan(
        groups=tuple(
            GroupPlan(
                group_id=cursor,
                task=tasks.training_task(cursor),
                env_seed=derive_seed(seed, "environment", cursor),
                sampling_seed=derive_seed(seed, "sampling", cursor),
            )
            for cursor in cursors
        ),
        group_size=config.group_size,
        min_group_size=config.min_group_size,
        sampling=config.sampling_params(),
        budget=config.trajectory_budget(),
    )


def evaluation_plan(config: GroupPolicyConfig, tasks: Sequence[Any], seed: int) -> RolloutPlan:
    """One trajectory for each task of a panel, sampled as the evaluation config `config` says."""
    return RolloutPlan(
        groups=evaluation_groups(tasks, seed),
        group_size=1,
        min_group_size=1,
        sampling=config.sampling_params(),
        explore=False,
    )
