"""The iteration that every group-relative algorithm shares: roll out groups, assign credit, update, deliver weights."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Collection
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import numpy as np
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.utils import _get_env_runner_bundles, _get_learner_bundles
from ray.rllib.callbacks.utils import make_callback
from ray.rllib.core import COMPONENT_LEARNER_GROUP, DEFAULT_MODULE_ID
from ray.rllib.env.env_runner_group import EnvRunnerGroup
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.annotations import override
from ray.rllib.utils.checkpoints import Checkpointable
from ray.rllib.utils.metrics import (
    ENV_RUNNER_RESULTS,
    ENV_RUNNER_SAMPLING_TIMER,
    LEARNER_RESULTS,
    LEARNER_UPDATE_TIMER,
    NUM_ENV_STEPS_SAMPLED_LIFETIME,
    NUM_EPISODES,
    SYNCH_WORKER_WEIGHTS_TIMER,
    TIMERS,
)
from ray.rllib.utils.typing import ResultDict, StateDict

from rllib_gigpo.algorithms.group_policy.cluster_resources import check_cluster_resources
from rllib_gigpo.algorithms.group_policy.evaluation_panel import EvaluationPanel
from rllib_gigpo.algorithms.group_policy.group_credit import advantages_of_modules, credit_metrics, has_signal
from rllib_gigpo.algorithms.group_policy.group_policy_config import GroupPolicyConfig
from rllib_gigpo.algorithms.group_policy.group_sampling import ROLLOUT_GROUP_RESULTS, GroupSampling
from rllib_gigpo.algorithms.group_policy.guard_readings import read_metrics
from rllib_gigpo.algorithms.group_policy.guards import GUARD_RESULTS, Guards
from rllib_gigpo.algorithms.group_policy.kl_in_reward import coefficient_at, kl_penalties
from rllib_gigpo.algorithms.group_policy.learner_update import update_learners
from rllib_gigpo.algorithms.group_policy.loss_watch import LossWatch
from rllib_gigpo.algorithms.group_policy.nested_metrics import nested
from rllib_gigpo.algorithms.group_policy.overlap import OVERLAP_RESULTS, OverlappedSampling
from rllib_gigpo.algorithms.group_policy.plans import evaluation_plan
from rllib_gigpo.algorithms.group_policy.sampler_gap import check_sampler_gaps
from rllib_gigpo.algorithms.group_policy.scoring import REFERENCE_LOGP, score_rows
from rllib_gigpo.algorithms.group_policy.self_play import refresh_opponents
from rllib_gigpo.algorithms.group_policy.weight_delivery import deliver_weights
from rllib_gigpo.connectors.token_rows import STEP_ROWS, TOKEN_ROWS
from rllib_gigpo.env_runners.rollout_metrics import rollout_metrics
from rllib_gigpo.env_runners.runner_group import RunnerGroup
from rllib_gigpo.env_runners.silence import SilenceWatch
from rllib_gigpo.env_runners.task_stream import TaskStream
from rllib_gigpo.env_runners.trajectories import by_trajectory
from rllib_gigpo.report.record_files import records_folder
from rllib_gigpo.report.trajectory_recorder import TrajectoryRecorder
from rllib_gigpo.rows import StepRows, TokenRows

logger = logging.getLogger(__name__)

WEIGHT_DELIVERY_RESULTS = "weight_delivery"
COMPONENT_GROUP_CONNECTOR = "group_connector"
CREDIT_ASSIGNMENT_TIMER = "credit_assignment"
SCORING_TIMER = "scoring"


class GroupPolicy(GroupSampling):
    """Base class: a subclass says with `compute_advantages` how credit is assigned within groups."""

    _overlap: OverlappedSampling | None = None  # None: every group is of the weights that the update starts from

    @classmethod
    @override(Algorithm)
    def get_default_config(cls) -> GroupPolicyConfig:
        return GroupPolicyConfig()

    def credit_columns(self, rows: StepRows) -> dict[str, np.ndarray]:
        """What the advantages are made of, for the recorded trajectories: float32[T] each, by name."""
        return {}

    def credit_metrics(self, rows: StepRows, advantages: np.ndarray) -> dict[str, float]:
        """Metrics of an iteration's advantages (float32[T]), logged under `ROLLOUT_GROUP_RESULTS`."""
        return credit_metrics(advantages, rows.group_ids)

    @override(Algorithm)
    def setup(self, config: GroupPolicyConfig) -> None:
        check_cluster_resources([*_get_env_runner_bundles(self.config), *_get_learner_bundles(self.config)])
        try:
            super().setup(config)
        except Exception:
            # RLlib goes on without a runner that did not start, and then fails over its missing answer.
            if getattr(self, "env_runner_group", None) is not None:
                RunnerGroup(self.env_runner_group, self.config).check_started()
            raise
        self._runners = RunnerGroup(self.env_runner_group, self.config)
        self._runners.check_started()
        # Without a seed the run still has one, drawn here and kept in checkpoints, so that it can be continued exactly.
        self._seed = secrets.randbits(31) if self.config.seed is None else self.config.seed
        self._task_cursor = 0
        self._tasks = TaskStream(self._seed, tasks=self.config.tasks, evaluation_tasks=self.config.evaluation_tasks)
        # Set in any case: a process may have been another trial's before.
        lags = self.config.max_weight_lag > 0
        self._overlap = OverlappedSampling(self._roll_out, self._next_plan) if lags else None
        self._group_connector = self.config.build_group_connector()
        self._silence = SilenceWatch(self.config.policies, self.config.may_learn)
        self._losses = LossWatch()
        self._guards = Guards(self.config.guard_limits())
        self._last_panel = None
        self._any_finished = False  # whether any trajectory of this process's rollouts has
        self.recorder = TrajectoryRecorder(
            records_folder(self.logdir, self._storage),
            num_groups=self.config.recorded_groups,
            model_path=self._model_path,
            has_anchors=bool(self.config.anchor_connectors()),
        )
        self.deliver_weights()

    @override(Algorithm)
    def training_step(self) -> None:
        with self._timed(ENV_RUNNER_SAMPLING_TIMER):
            if self._overlap is not None:
                episodes = self._checked(*self._overlap.take())
                self._overlap.start_next()
            else:
                episodes = self._sample_next()
        if not episodes:
            logger.warning("no rollout group was left to train on in this iteration: the update is skipped")
            self._settle()  # a checkpoint may follow
            return
        if self.config.engine_sleep_level is not None:
            self._runners.sleep(self.config.engine_sleep_level)
        with self._timed(CREDIT_ASSIGNMENT_TIMER):
            rows = self._assign_credit(episodes)
        with self._timed(LEARNER_UPDATE_TIMER):
            self._update(rows)
            self._refresh_opponents()
        if self._overlap is not None:
            self._overlap.settle()
            self._log(OVERLAP_RESULTS, self._overlap.metrics())
            if not self._runners.known_alive():
                return  # they died meanwhile, and get the weights when they are restored
        with self._timed(SYNCH_WORKER_WEIGHTS_TIMER):
            self.deliver_weights()

    @override(Algorithm)
    def evaluate(self, parallel_train_future: Any = None) -> ResultDict:
        """Plays the fixed evaluation panel, one trajectory per task, on the training env runners.

        Returns:
            {"env_runners": metrics} with success_rate, its standard error, panel_size and panel_hash beside the metrics
            of training rollouts. The panel's tasks depend on neither the seed nor the algorithm.
        """
        self._settle()
        self._call_back("on_evaluate_start")
        evaluation_config = self.evaluation_config
        tasks = self._tasks.evaluation_panel(evaluation_config.evaluation_duration)
        self.restore_env_runners(self.env_runner_group)
        rollout = self._roll_out(evaluation_plan(evaluation_config, tasks, self._seed))
        rollout.check_any_finished(len(tasks), services_worked=self._any_finished)
        self._last_panel = EvaluationPanel.from_episodes(
            rollout.episodes, tasks, env=str(self.config.env), env_config=self.config.env_config
        )
        results = (
            {NUM_EPISODES: len(by_trajectory(rollout.episodes))}
            | rollout_metrics(rollout.episodes, rollout.counts)
            | self._last_panel.metrics()
        )
        self._call_back("on_evaluate_end", evaluation_metrics={ENV_RUNNER_RESULTS: nested(results)})
        return {ENV_RUNNER_RESULTS: nested(results)}

    def deliver_weights(self) -> int:
        """Gives the learners' weights to every env runner, and waits until each has proved that it serves them.

        Returns:
            The version that every runner now serves.

        Raises:
            RuntimeError: A runner does not; see `weight_delivery.deliver_weights`.
        """
        self._settle()
        delivery = deliver_weights(
            self.learner_group,
            self._runners,
            model_dtypes={
                # A learner that computes in bfloat16 proves no more than one whose weights are.
                id_: "bfloat16" if self.config.mixed_precision else self.config.get_config_for_module(id_).model_dtype
                for id_ in self.config.policies
            },
            timeout_s=self.config.env_runner_restore_timeout_s,
        )
        self._log(WEIGHT_DELIVERY_RESULTS, delivery.metrics())
        return delivery.version

    @override(Algorithm)
    def restore_env_runners(self, env_runner_group: EnvRunnerGroup) -> list[int]:
        """Takes restarted env runners back, with the current weights: a new process has those of the model directory.

        Returns:
            Their ids.
        """
        self._settle()
        restored = self._runners.restore()
        if restored:
            self.deliver_weights()
        return restored

    def _settle(self) -> None:
        """Waits for a rollout that is going on: env runners do one thing at a time."""
        if self._overlap is not None:
            self._overlap.settle()

    def _assign_credit(self, episodes: list[SingleAgentEpisode]) -> TokenRows:
        """Token rows of all episodes, with their advantages."""
        batch = self._group_connector(rl_module=None, batch={}, episodes=episodes, shared_data={}, metrics=self.metrics)
        step_rows, token_rows = self._score(batch[STEP_ROWS], batch[TOKEN_ROWS])
        token_rows = self.with_credit(step_rows, token_rows)
        if self.config.recorded_groups:
            columns = self.credit_columns(step_rows)
            self.recorder.record(self.iteration + 1, episodes, step_rows, token_rows, columns)
        return token_rows

    def _score(self, step_rows: StepRows, token_rows: TokenRows) -> tuple[StepRows, TokenRows]:
        """The rows with what the learners compute before credit is assigned, and the KL in the rewards where asked."""
        if scores := self.config.scores():
            with self._timed(SCORING_TIMER):
                token_rows = score_rows(self.learner_group, token_rows, scores)
        if REFERENCE_LOGP not in scores:
            return step_rows, token_rows
        coefficient = coefficient_at(self.config.kl_coeff, self._steps_sampled())
        penalties = coefficient * kl_penalties(token_rows, estimator=self.config.kl_estimator)
        self._log(ROLLOUT_GROUP_RESULTS, {"kl_reward_penalty_mean": float(penalties.mean())})
        rewards = (step_rows.rewards - penalties).astype(np.float32)
        return replace(step_rows, rewards=rewards), token_rows

    def with_credit(self, step_rows: StepRows, token_rows: TokenRows) -> TokenRows:
        """Token rows with what the update learns from: their advantages."""
        rows_of_modules = token_rows.rows_of_modules(DEFAULT_MODULE_ID).values()
        advantages = advantages_of_modules(step_rows, rows_of_modules, self.compute_advantages)
        return self.with_advantages(step_rows, token_rows, advantages)

    def with_advantages(self, step_rows: StepRows, token_rows: TokenRows, advantages: np.ndarray) -> TokenRows:
        """Token rows with `advantages` (float32[T]), of which those of groups without a signal are out of the loss."""
        self._log(ROLLOUT_GROUP_RESULTS, self.credit_metrics(step_rows, advantages))
        if self.config.trains_on_zero_signal_groups():
            in_loss = np.ones(len(step_rows), bool)
        else:
            in_loss = has_signal(advantages, step_rows.group_ids)
        return token_rows.with_advantages(advantages, in_loss)

    def _update(self, rows: TokenRows) -> None:
        timesteps = {NUM_ENV_STEPS_SAMPLED_LIFETIME: self._steps_sampled()}
        results = update_learners(self.learner_group, rows, timesteps=timesteps)
        self.metrics.aggregate(results, key=LEARNER_RESULTS)
        of_modules = rows.rows_of_modules(DEFAULT_MODULE_ID).items()
        # Of the others, the policy was not run.
        updated = [module_id for module_id, own_rows in of_modules if rows.in_loss[own_rows].any()]
        self._log(GUARD_RESULTS, self._guards.look_at(read_metrics(self.metrics, updated)))
        self._guards.check()
        check_sampler_gaps(
            {module_id: self.metrics.peek((LEARNER_RESULTS, module_id)) for module_id in updated},
            warning=self.config.sampler_gap_warning,
            limit=self.config.sampler_gap_limit,
        )

    def _refresh_opponents(self) -> None:
        """In self-play, keeps a copy of the policy now and then."""
        if self.config.self_play_agent is not None:
            refresh_opponents(
                self.learner_group,
                self.iteration + 1,
                past_versions=self.config.past_versions,
                interval=self.config.snapshot_interval,
            )

    def _model_path(self, module_id: str | None) -> str:
        """The model directory of a module; None for that of a single agent."""
        config = self.config if module_id is None else self.config.get_config_for_module(module_id)
        return str(config.model_path)

    def _timed(self, timer: str) -> AbstractContextManager[Any]:
        """Logs seconds of this iteration alone; RLlib's own timers move by a hundredth towards those of the last."""
        return self.metrics.log_time((TIMERS, timer), reduce="mean", window=1)

    def _steps_sampled(self) -> int:
        return self.metrics.peek((ENV_RUNNER_RESULTS, NUM_ENV_STEPS_SAMPLED_LIFETIME), default=0)

    def _call_back(self, event: str, **kwargs: Any) -> None:
        make_callback(
            event,
            callbacks_objects=self.callbacks,
            callbacks_functions=getattr(self.config, f"callbacks_{event}"),
            kwargs={"algorithm": self, "metrics_logger": self.metrics, **kwargs},
        )

    @override(Algorithm)
    def cleanup(self) -> None:
        if self._overlap is not None:
            self._overlap.stop(self._runners.kill)
        super().cleanup()

    @classmethod
    @override(Algorithm)
    def _should_create_evaluation_env_runners(cls, eval_config: Any) -> bool:
        return False

    @override(Algorithm)
    def get_checkpointable_components(self) -> list[tuple[str, Checkpointable]]:
        return [*super().get_checkpointable_components(), (COMPONENT_GROUP_CONNECTOR, self._group_connector)]

    @override(Algorithm)
    def get_state(
        self,
        components: str | Collection[str] | None = None,
        *,
        not_components: str | Collection[str] | None = None,
        **kwargs: Any,
    ) -> StateDict:
        state = super().get_state(components, not_components=not_components, **kwargs)
        if self._check_component(COMPONENT_GROUP_CONNECTOR, components, not_components):
            state[COMPONENT_GROUP_CONNECTOR] = self._group_connector.get_state(
                components=self._get_subcomponents(COMPONENT_GROUP_CONNECTOR, components),
                not_components=self._get_subcomponents(COMPONENT_GROUP_CONNECTOR, not_components),
            )
        # What was sampled ahead is not saved: it is sampled again.
        ahead = 0 if self._overlap is None else self._overlap.groups_ahead
        return state | {
            "task_cursor": self._task_cursor - ahead,
            "groups_ahead": ahead,
            "run_seed": self._seed,
            "guards": self._guards.get_state(),
        }

    @override(Algorithm)
    def set_state(self, state: StateDict) -> None:
        self._settle()
        super().set_state(state)
        if COMPONENT_GROUP_CONNECTOR in state:
            self._group_connector.set_state(state[COMPONENT_GROUP_CONNECTOR])
        if "guards" in state:
            self._guards.set_state(state["guards"])
        if "task_cursor" in state:
            if self._overlap is not None:
                self._overlap.restored(state.get("groups_ahead", 0))
            self._task_cursor = state["task_cursor"]
            self._seed = state["run_seed"]
            self._tasks = TaskStream(self._seed, tasks=self.config.tasks, evaluation_tasks=self.config.evaluation_tasks)
        if COMPONENT_LEARNER_GROUP in state:
            self.deliver_weights()
