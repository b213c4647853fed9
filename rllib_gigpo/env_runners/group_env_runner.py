"""RLlib's door to `GroupRollout`: an EnvRunner that samples whole rollout groups from an explicit plan."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import gymnasium as gym
import ray
from ray.rllib.callbacks.utils import make_callback
from ray.rllib.core import COMPONENT_RL_MODULE, DEFAULT_MODULE_ID
from ray.rllib.env import INPUT_ENV_SINGLE_SPACES, INPUT_ENV_SPACES
from ray.rllib.env.env_runner import EnvRunner
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.annotations import override
from ray.rllib.utils.metrics import SAMPLE_TIMER, WEIGHTS_SEQ_NO
from ray.rllib.utils.typing import StateDict

from rllib_gigpo.env_runners.environment_pool import EnvironmentPool, InlinePool
from rllib_gigpo.env_runners.environment_worker import CreatorContext, create_environment
from rllib_gigpo.env_runners.group_rollout import GroupRollout
from rllib_gigpo.env_runners.rollout_plan import RolloutPlan
from rllib_gigpo.env_runners.runner_answers import Rollout, ServedWeights
from rllib_gigpo.env_runners.worker_pool import WorkerLimits, WorkerPool
from rllib_gigpo.environments import environment_creator
from rllib_gigpo.failures import failure_of
from rllib_gigpo.inference.engines import build_engines
from rllib_gigpo.inference.weights_probe import Probe
from rllib_gigpo.rl_modules.causal_lm_facade import facade_spec
from rllib_gigpo.unfilled_memory import leave_new_tensors_unfilled


class GroupEnvRunner(SingleAgentEnvRunner):
    """Samples rollout groups. What RLlib's runner does with vector environments and tensors does not apply to text."""

    env: EnvironmentPool | None

    def __init__(self, *, config: Any, **kwargs: Any):
        leave_new_tensors_unfilled()
        super().__init__(config=config, **kwargs)
        assert self.env is not None
        self._rollout = self._make_rollout(self.env)

    @override(SingleAgentEnvRunner)
    def make_module(self) -> None:
        env = None if self.env is None else self.env.unwrapped
        spec = self.config.get_rl_module_spec(env=env, spaces=self.get_spaces(), inference_only=True)
        if self.config.engine == "hf":
            self.module = spec.build().to(self._device)
        else:
            self.module = facade_spec(spec).build()

    def _make_rollout(self, pool: EnvironmentPool) -> GroupRollout:
        self.engines, of_rollouts = build_engines(self.config, {DEFAULT_MODULE_ID: self.module}, device=self._device)
        self.engine = self.engines[DEFAULT_MODULE_ID]
        return GroupRollout(
            pool=pool,
            engine=of_rollouts,
            rl_module=self.module,
            env_to_module=self._env_to_module,
            module_to_env=self._module_to_env,
            stall_timeout_s=self.config.rollout_stall_timeout_s,
        )

    @override(SingleAgentEnvRunner)
    def make_env(self) -> None:
        if self.env is not None:
            self.env.close()
        config = self.config
        context = CreatorContext(config.env_config, self.worker_index or 0, self.num_workers)
        create = environment_creator(config.env)
        self.num_envs = config.num_envs_per_env_runner
        if config.env_workers:
            limits = WorkerLimits(
                config.env_step_timeout_s, config.env_worker_memory_limit_mb, config.env_worker_max_episodes
            )
            self.env = WorkerPool(create, context, self.num_envs, num_workers=config.env_workers, limits=limits)
        else:
            self.env = InlinePool(partial(create_environment, create, context), self.num_envs)
        try:
            self._check_environment(self.env)
        except ValueError:
            self.env.close()
            raise

    def _check_environment(self, pool: EnvironmentPool) -> None:
        """Raises ValueError where the environment is not for this runner."""
        if pool.is_multi_agent:
            raise ValueError(
                f"env={self.config.env!r} is an RLlib MultiAgentEnv; say so with multi_agent(policies={{'shared'}}, "
                "policy_mapping_fn=lambda agent_id, episode, **kwargs: 'shared'), or with several policies"
            )

    @override(EnvRunner)
    def get_spaces(self) -> dict[str, tuple[gym.Space, gym.Space]]:
        if self.env is None:
            return self.spaces
        spaces = (self.env.single_observation_space, self.env.single_action_space)
        return {INPUT_ENV_SPACES: spaces, INPUT_ENV_SINGLE_SPACES: spaces, DEFAULT_MODULE_ID: spaces}

    @override(SingleAgentEnvRunner)
    def sample(self, *, plan: RolloutPlan, **kwargs: Any) -> tuple[list[SingleAgentEpisode], Counter[str]]:
        """Rolls out the groups of `plan`.

        Returns:
            The finished episodes (see `GroupRollout.run`) and what was counted on the way.
        """
        self.metrics.log_value(WEIGHTS_SEQ_NO, self._weights_seq_no, window=1)
        with self.metrics.log_time(SAMPLE_TIMER, reduce="max", window=1):  # over the env runners: what the slowest took
            episodes = self._rollout.run(plan)
        if plan.explore:
            self._count_sampled(episodes)
        make_callback(
            "on_sample_end",
            callbacks_objects=self._callbacks,
            callbacks_functions=self.config.callbacks_on_sample_end,
            kwargs={"env_runner": self, "metrics_logger": self.metrics, "samples": episodes},
        )
        return episodes, self._rollout.take_counts()

    def _count_sampled(self, episodes: list[SingleAgentEpisode]) -> None:
        self._increase_sampled_metrics(sum(len(episode) for episode in episodes), len(episodes))

    def roll_out(self, plan: RolloutPlan) -> Rollout:
        """`sample`, with this runner's metrics."""
        self._rollout.last_failure = None
        episodes, counts = self.sample(plan=plan)
        return Rollout(episodes, counts, [self.get_metrics()], self._rollout.last_failure)

    @override(SingleAgentEnvRunner)
    def set_state(self, state: StateDict) -> None:
        """Takes weights also where they are older than its own: a restored checkpoint must reach the engine.

        RLlib's runner keeps newer weights, so that after `restore_from_path` of an older checkpoint it would go on
        sampling from the policy that was meant to be left.
        """
        state = dict(state)
        weights = state.pop(COMPONENT_RL_MODULE, None)
        version = state.pop(WEIGHTS_SEQ_NO, 0)
        super().set_state(state)
        if weights:  # those of a facade are none
            weights = ray.get(weights) if isinstance(weights, ray.ObjectRef) else weights
            # Learners may have modules, such as a critic, that no engine samples from. A single-agent runner's own
            # checkpoint has the only module's weights without its name.
            of_engines = {id_: weights[id_] for id_ in self.engines if id_ in weights} or {DEFAULT_MODULE_ID: weights}
            for module_id, own in of_engines.items():
                self.engines[module_id].deliver(own, version)
            self._weights_seq_no = version

    @override(SingleAgentEnvRunner)
    def stop(self) -> None:
        super().stop()
        self._rollout.close()

    def sleep(self, level: int) -> None:
        """Has the engines give their GPU's memory back until they are asked, or get weights; see `VLLMServer.sleep`."""
        for engine in self.engines.values():
            engine.sleep(level)

    def deliver(self, module_id: str, weights: Any, version: int, probe: Probe) -> ServedWeights:
        """Gives weights to an engine.

        Args:
            module_id: Whose they are.
            weights: The module's state, by weight name, or a reference to that.
            version: Of the weights.
            probe: What to probe the engine with.
        """
        weights = ray.get(weights) if isinstance(weights, ray.ObjectRef) else weights
        self.set_state({COMPONENT_RL_MODULE: {module_id: weights}, WEIGHTS_SEQ_NO: version})
        engine = self.engines[module_id]
        return ServedWeights(engine.weights_version, engine.probe(probe))

    def answer(self, method: str, **kwargs: Any) -> Any:
        """What a method returns, or a `Failure` where it raises.

        An exception must not leave a runner: RLlib would log it here, end this process, and tell the driver only that
        the process has ended.
        """
        try:
            return getattr(self, method)(**kwargs)
        except Exception as error:
            return failure_of(error)
