"""The iteration that every group-relative algorithm shares: roll out groups, assign credit, update, deliver weights."""

from __future__ import annotations

import json
import logging
import secrets
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import ray
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.callbacks.utils import make_callback
from ray.rllib.core import COMPONENT_LEARNER, COMPONENT_RL_MODULE, DEFAULT_MODULE_ID
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.annotations import override
from ray.rllib.utils.metrics import (
    ENV_RUNNER_RESULTS,
    ENV_RUNNER_SAMPLING_TIMER,
    LEARNER_RESULTS,
    LEARNER_UPDATE_TIMER,
    NUM_ENV_STEPS_SAMPLED_LIFETIME,
    NUM_EPISODES,
    SYNCH_WORKER_WEIGHTS_TIMER,
    TIMERS,
    WEIGHTS_SEQ_NO,
)
from ray.rllib.utils.typing import ResultDict, StateDict

from rllib_gigpo.algorithms.group_policy.evaluation_panel import EvaluationPanel
from rllib_gigpo.algorithms.group_policy.group_credit import credit_metrics, has_signal
from rllib_gigpo.algorithms.group_policy.group_policy_config import GroupPolicyConfig
from rllib_gigpo.algorithms.group_policy.sharding import shard_rows
from rllib_gigpo.connectors.token_rows import STEP_ROWS, TOKEN_ROWS
from rllib_gigpo.env_runners.rollout_metrics import rollout_metrics
from rllib_gigpo.env_runners.rollout_plan import GroupPlan, RolloutPlan
from rllib_gigpo.env_runners.task_stream import TaskStream
from rllib_gigpo.rows import StepRows, TokenRowBatch, TokenRows
from rllib_gigpo.seeds import derive_seed

logger = logging.getLogger(__name__)

ROLLOUT_GROUP_RESULTS = "rollout_groups"
CREDIT_ASSIGNMENT_TIMER = "credit_assignment"
EVALUATION_PANEL_FILE = "evaluation_panel.json"


class GroupPolicy(Algorithm):
    """Base class: a subclass says with `compute_advantages` how credit is assigned within groups."""

    config: GroupPolicyConfig

    @classmethod
    @override(Algorithm)
    def get_default_config(cls) -> GroupPolicyConfig:
        return GroupPolicyConfig()

    def compute_advantages(self, rows: StepRows) -> np.ndarray:
        """One advantage per step row, float32[T], from the light rows of all groups of an iteration."""
        raise NotImplementedError

    @override(Algorithm)
    def setup(self, config: GroupPolicyConfig) -> None:
        super().setup(config)
        # Without a seed the run still has one, drawn here and kept in checkpoints, so that it can be continued exactly.
        self._seed = secrets.randbits(31) if self.config.seed is None else self.config.seed
        self._task_cursor = 0
        self._tasks = TaskStream(self._seed, tasks=self.config.tasks, evaluation_tasks=self.config.evaluation_tasks)
        self._group_connector = self.config.build_group_connector()
        self._last_panel: EvaluationPanel | None = None

    @override(Algorithm)
    def training_step(self) -> None:
        with self.metrics.log_time((TIMERS, ENV_RUNNER_SAMPLING_TIMER)):
            episodes = self._sample(self._next_plan())
        if not episodes:
            logger.warning("no rollout group was left to train on in this iteration: the update is skipped")
            return
        with self.metrics.log_time((TIMERS, CREDIT_ASSIGNMENT_TIMER)):
            rows = self._assign_credit(episodes)
        with self.metrics.log_time((TIMERS, LEARNER_UPDATE_TIMER)):
            self._update(rows)
        with self.metrics.log_time((TIMERS, SYNCH_WORKER_WEIGHTS_TIMER)):
            self.deliver_weights()

    @override(Algorithm)
    def evaluate(self, parallel_train_future: Any = None) -> ResultDict:
        """Plays the fixed evaluation panel, one trajectory per task, on the training env runners.

        Returns:
            {"env_runners": metrics} with success_rate, its standard error, panel_size and panel_hash beside the metrics
            of training rollouts. The panel's tasks depend on neither the seed nor the algorithm.
        """
        self._call_back("on_evaluate_start")
        evaluation_config = self.evaluation_config
        tasks = self._tasks.evaluation_panel(evaluation_config.evaluation_duration)
        plan = RolloutPlan(
            groups=tuple(
                GroupPlan(
                    group_id=index,
                    task=task,
                    env_seed=derive_seed("evaluation", index),
                    sampling_seed=derive_seed(self._seed, "evaluation", index),
                )
                for index, task in enumerate(tasks)
            ),
            group_size=1,
            min_group_size=1,
            sampling=evaluation_config.sampling_params(),
            explore=False,
        )
        episodes, counts = self._roll_out(plan)
        self._last_panel = EvaluationPanel.from_episodes(
            episodes, tasks, env=str(self.config.env), env_config=self.config.env_config
        )
        results = {NUM_EPISODES: len(episodes)} | rollout_metrics(episodes, counts) | self._last_panel.metrics()
        self._call_back("on_evaluate_end", evaluation_metrics={ENV_RUNNER_RESULTS: _nested(results)})
        return {ENV_RUNNER_RESULTS: _nested(results)}

    def deliver_weights(self) -> int:
        """Gives the learners' weights to every env runner and waits for all of them.

        Returns:
            The version that every runner now serves.

        Raises:
            RuntimeError: A runner answers another version.
        """
        state = self.learner_group.get_state(
            components=f"{COMPONENT_LEARNER}/{COMPONENT_RL_MODULE}", inference_only=True
        )[COMPONENT_LEARNER]
        version = state[WEIGHTS_SEQ_NO]
        weights = state[COMPONENT_RL_MODULE]
        if self._samples_locally:
            served = [self.env_runner.deliver(weights, version)]
        else:
            served = self.env_runner_group.foreach_env_runner(
                "deliver", kwargs={"weights": ray.put(weights), "version": version}, local_env_runner=False
            )
        if any(answer != version for answer in served):
            raise RuntimeError(f"weights version {version} was delivered, but the env runners serve {served}")
        return version

    def _next_plan(self) -> RolloutPlan:
        """The next groups of the task stream; moves the task cursor past them."""
        first = self._task_cursor
        self._task_cursor += self.config.groups_per_iteration
        return RolloutPlan(
            groups=tuple(
                GroupPlan(
                    group_id=cursor,
                    task=self._tasks.training_task(cursor),
                    env_seed=derive_seed(self._seed, "environment", cursor),
                    sampling_seed=derive_seed(self._seed, "sampling", cursor),
                )
                for cursor in range(first, self._task_cursor)
            ),
            group_size=self.config.group_size,
            min_group_size=self.config.min_group_size,
            sampling=self.config.sampling_params(),
        )

    def _sample(self, plan: RolloutPlan) -> list[SingleAgentEpisode]:
        episodes, counts = self._roll_out(plan)
        self._log(ENV_RUNNER_RESULTS, rollout_metrics(episodes, counts))
        return episodes

    def _roll_out(self, plan: RolloutPlan) -> tuple[list[SingleAgentEpisode], Counter[str]]:
        """Rolls `plan` out on all runners, whole groups each; episodes come back in the plan's order."""
        if self._samples_locally:
            answers = [(*self.env_runner.sample(plan=plan), self.env_runner.get_metrics())]
        else:
            runner_ids = self.env_runner_group.healthy_worker_ids()
            parts = plan.split(len(runner_ids))
            answers = self.env_runner_group.foreach_env_runner(
                [_sample_part(part) for part in parts], local_env_runner=False, remote_worker_ids=runner_ids
            )
        if plan.explore:
            self.metrics.aggregate([metrics for _, _, metrics in answers], key=ENV_RUNNER_RESULTS)
        episodes = [episode for part, _, _ in answers for episode in part]
        return episodes, sum((counts for _, counts, _ in answers), Counter())

    def _assign_credit(self, episodes: list[SingleAgentEpisode]) -> TokenRows:
        """Token rows of all episodes, with their advantages."""
        batch = self._group_connector(rl_module=None, batch={}, episodes=episodes, shared_data={}, metrics=self.metrics)
        step_rows: StepRows = batch[STEP_ROWS]
        token_rows: TokenRows = batch[TOKEN_ROWS]
        advantages = self.compute_advantages(step_rows)
        self._log(ROLLOUT_GROUP_RESULTS, credit_metrics(advantages, step_rows.group_ids))
        if self.config.trains_on_zero_signal_groups():
            in_loss = np.ones(len(step_rows), bool)
        else:
            in_loss = has_signal(advantages, step_rows.group_ids)
        return token_rows.with_advantages(advantages, in_loss)

    def _update(self, rows: TokenRows) -> None:
        steps_sampled = self.metrics.peek((ENV_RUNNER_RESULTS, NUM_ENV_STEPS_SAMPLED_LIFETIME), default=0)
        timesteps = {NUM_ENV_STEPS_SAMPLED_LIFETIME: steps_sampled}
        if self.learner_group.is_local:
            batch = TokenRowBatch({DEFAULT_MODULE_ID: rows}, env_steps=len(rows))
            results = self.learner_group.update(batch=batch, timesteps=timesteps)
        else:
            shards = [
                TokenRowBatch({DEFAULT_MODULE_ID: shard}, env_steps=len(shard))
                for shard in shard_rows(rows, len(self.learner_group))
            ]
            results = self.learner_group.update(batch_refs=[ray.put(shard) for shard in shards], timesteps=timesteps)
        self.metrics.aggregate(results, key=LEARNER_RESULTS)

    def _call_back(self, event: str, **kwargs: Any) -> None:
        make_callback(
            event,
            callbacks_objects=self.callbacks,
            callbacks_functions=getattr(self.config, f"callbacks_{event}"),
            kwargs={"algorithm": self, "metrics_logger": self.metrics, **kwargs},
        )

    @property
    def _samples_locally(self) -> bool:
        return self.env_runner_group.num_remote_workers() == 0

    def _log(self, prefix: str, metrics: dict[str, float]) -> None:
        for name, value in metrics.items():
            self.metrics.log_value((prefix, *name.split("/")), value, window=1)

    @classmethod
    @override(Algorithm)
    def _should_create_evaluation_env_runners(cls, eval_config: Any) -> bool:
        return False

    @override(Algorithm)
    def get_state(self, *args: Any, **kwargs: Any) -> StateDict:
        return super().get_state(*args, **kwargs) | {"task_cursor": self._task_cursor, "run_seed": self._seed}

    @override(Algorithm)
    def set_state(self, state: StateDict) -> None:
        super().set_state(state)
        if "task_cursor" in state:
            self._task_cursor = state["task_cursor"]
            self._seed = state["run_seed"]
            self._tasks = TaskStream(self._seed, tasks=self.config.tasks, evaluation_tasks=self.config.evaluation_tasks)

    @override(Algorithm)
    def save_to_path(self, path: Any = None, **kwargs: Any) -> str:
        saved = super().save_to_path(path, **kwargs)
        if self._last_panel is not None and Path(saved).is_dir():
            (Path(saved) / EVALUATION_PANEL_FILE).write_text(json.dumps(self._last_panel.to_json(), indent=1))
        return saved

    @override(Algorithm)
    def restore_from_path(self, path: Any, *args: Any, **kwargs: Any) -> None:
        super().restore_from_path(path, *args, **kwargs)
        self.deliver_weights()


def _sample_part(part: RolloutPlan) -> Callable[[Any], tuple[list[SingleAgentEpisode], Counter[str], ResultDict]]:
    """A function that rolls out `part` on the runner it is called with."""
    return lambda runner: (*runner.sample(plan=part), runner.get_metrics())


def _nested(metrics: dict[str, Any]) -> dict[str, Any]:
    """{"a/b": 1} as {"a": {"b": 1}}."""
    nested: dict[str, Any] = {}
    for name, value in metrics.items():
        *parents, leaf = name.split("/")
        level = nested
        for parent in parents:
            level = level.setdefault(parent, {})
        level[leaf] = value
    return nested
