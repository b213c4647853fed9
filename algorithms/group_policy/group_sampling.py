"""How an iteration comes by its episodes: plans, rollouts, dynamic sampling, and what is logged of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.metrics import ENV_RUNNER_RESULTS

from rllib_gigpo.algorithms.group_policy.checkpointed_algorithm import CheckpointedAlgorithm
from rllib_gigpo.algorithms.group_policy.dynamic_sampling import connected_apart, groups_with_signal, sample_until_full
from rllib_gigpo.algorithms.group_policy.group_policy_config import GroupPolicyConfig
from rllib_gigpo.algorithms.group_policy.loss_watch import LossWatch
from rllib_gigpo.algorithms.group_policy.plans import training_plan
from rllib_gigpo.columns import GROUP_ID
from rllib_gigpo.connectors.credit_groups import credit_group_id
from rllib_gigpo.connectors.token_rows import STEP_ROWS
from rllib_gigpo.env_runners.rollout_metrics import GROUP_COUNTS, PLANNED_GROUPS, rollout_metrics
from rllib_gigpo.env_runners.rollout_plan import RolloutPlan
from rllib_gigpo.env_runners.runner_answers import Rollout
from rllib_gigpo.env_runners.runner_group import RunnerGroup
from rllib_gigpo.env_runners.silence import SilenceWatch
from rllib_gigpo.env_runners.task_stream import TaskStream
from rllib_gigpo.rows import StepRows

ROLLOUT_GROUP_RESULTS = "rollout_groups"


class GroupSampling(CheckpointedAlgorithm):
    """An algorithm that rolls groups out; its `setup` makes what is named here."""

    config: GroupPolicyConfig
    _runners: RunnerGroup
    _seed: int
    _task_cursor: int
    _tasks: TaskStream
    _group_connector: Any
    _silence: SilenceWatch
    _losses: LossWatch
    _any_finished: bool  # whether any trajectory of this process's rollouts has

    def compute_advantages(self, rows: StepRows) -> np.ndarray:
        """One advantage per step row, float32[T], from the light rows of all groups in which a module acted.

        It has no side effects: dynamic sampling also asks for the advantages of single groups.
        """
        raise NotImplementedError

    def _next_plan(self, num_groups: int | None = None) -> RolloutPlan:
        """The next groups of the task stream, an iteration's by default; moves the task cursor past them."""
        first = self._task_cursor
        self._task_cursor += self.config.groups_per_iteration if num_groups is None else num_groups
        return training_plan(self.config, self._tasks, self._seed, range(first, self._task_cursor))

    def _sample_next(self) -> list[SingleAgentEpisode]:
        """The episodes of the next groups of the task stream. Ctrl-C leaves the task cursor before them: a checkpoint
        that is saved then goes on with them."""
        first = self._task_cursor
        try:
            return self._sample_full() if self.config.dynamic_sampling else self._sample(self._next_plan())
        except KeyboardInterrupt:
            self._task_cursor = first
            raise

    def _sample(self, plan: RolloutPlan) -> list[SingleAgentEpisode]:
        return self._checked(plan, self._roll_out(plan))

    def _checked(self, plan: RolloutPlan, rollout: Rollout) -> list[SingleAgentEpisode]:
        """The episodes of an iteration's rollout, which is logged; raises RuntimeError where all have failed."""
        rollout.check_any_finished(len(plan.groups) * plan.group_size, services_worked=self._any_finished)
        self._log_rollout(rollout)
        return rollout.episodes

    def _roll_out(self, plan: RolloutPlan) -> Rollout:
        rollout = self._runners.roll_out(plan)
        rollout.counts[PLANNED_GROUPS] += len(plan.groups)
        self._any_finished |= bool(rollout.episodes)
        return rollout

    def _sample_full(self) -> list[SingleAgentEpisode]:
        """Dynamic sampling: as many groups with a signal as an iteration takes, or what the last round leaves."""

        def roll_out(num_groups: int) -> Rollout:
            if not self._runners.known_alive():  # an earlier round has lost all of them
                self.restore_env_runners(self.env_runner_group)
            return self._roll_out(self._next_plan(num_groups))

        sample = sample_until_full(
            roll_out,
            self._groups_with_signal,
            services_worked=lambda: self._any_finished,
            num_groups=self.config.groups_per_iteration,
            group_size=self.config.group_size,
            max_rounds=self.config.max_sampling_rounds,
        )
        self._log_rollout(sample.rollout)
        self._log(ROLLOUT_GROUP_RESULTS, sample.metrics)
        return sample.episodes

    def _groups_with_signal(self, episodes: list[SingleAgentEpisode]) -> set[int]:
        """Ids of the rollout groups in which the advantages of any agent that learns are not all 0."""
        batch = connected_apart(self._group_connector, episodes)
        signal = groups_with_signal(batch[STEP_ROWS], self.compute_advantages)
        learning = [episode for episode in episodes if self.config.may_learn(episode.module_id)]
        return {episode.get_infos(0)[GROUP_ID] for episode in learning if credit_group_id(episode) in signal}

    def _log_rollout(self, rollout: Rollout) -> None:
        """Logs everything that an iteration rolled out; once an iteration, for a second call would hide the first."""
        self.metrics.aggregate(rollout.metrics, key=ENV_RUNNER_RESULTS)
        metrics = rollout_metrics(rollout.episodes, rollout.counts)
        self._log(ENV_RUNNER_RESULTS, metrics)
        for name in GROUP_COUNTS:
            self.metrics.log_value((ENV_RUNNER_RESULTS, f"{name}_lifetime"), metrics[name], reduce="lifetime_sum")
        self._losses.look_at(rollout)
        self._silence.look_at(rollout.episodes, rollout.counts)

    def _log(self, prefix: str, metrics: dict[str, float]) -> None:
        for name, value in metrics.items():
            self.metrics.log_value((prefix, *name.split("/")), value, window=1)
