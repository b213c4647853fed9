"""RLlib's door to `MultiAgentGroupRollout`: samples whole rollout groups of a `MultiAgentEnv`."""

from __future__ import annotations

import gymnasium as gym
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModule
from ray.rllib.env import INPUT_ENV_SINGLE_SPACES, INPUT_ENV_SPACES
from ray.rllib.env.env_runner import EnvRunner
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.annotations import override
from ray.rllib.utils.metrics import (
    NUM_AGENT_STEPS_SAMPLED,
    NUM_AGENT_STEPS_SAMPLED_LIFETIME,
    NUM_ENV_STEPS_SAMPLED,
    NUM_ENV_STEPS_SAMPLED_LIFETIME,
    NUM_EPISODES,
    NUM_EPISODES_LIFETIME,
    NUM_MODULE_STEPS_SAMPLED,
    NUM_MODULE_STEPS_SAMPLED_LIFETIME,
)

from rllib_gigpo.env_runners.environment_pool import EnvironmentPool
from rllib_gigpo.env_runners.group_env_runner import GroupEnvRunner
from rllib_gigpo.env_runners.group_rollout import GroupRollout
from rllib_gigpo.env_runners.multi_agent_rollout import MultiAgentGroupRollout
from rllib_gigpo.env_runners.policy_mapping import PolicyMapping
from rllib_gigpo.env_runners.trajectories import by_trajectory, env_steps
from rllib_gigpo.inference.engines import build_engines
from rllib_gigpo.rl_modules.causal_lm_facade import facade_spec

# Tokens, not spaces, are what the modules read and write, but RLlib builds none without them.
_TEXT = gym.spaces.Text(max_length=1_000_000, min_length=0)


class MultiAgentGroupEnvRunner(GroupEnvRunner):
    """`GroupEnvRunner` for RLlib's multi-agent environments; its module is a `MultiRLModule`."""

    @override(GroupEnvRunner)
    def _check_environment(self, pool: EnvironmentPool) -> None:
        """
        Raises:
            ValueError: It is not for several agents, or names them wrongly, or the config maps an agent to no module.
        """
        if not pool.is_multi_agent:
            raise ValueError(
                f"env={self.config.env!r} is no RLlib MultiAgentEnv, so multi_agent(…) does not apply: leave it out"
            )
        agents = pool.possible_agents
        if not agents or not all(isinstance(agent, str) for agent in agents) or len(set(agents)) < len(agents):
            raise ValueError(
                f"env={self.config.env!r} has possible_agents={agents!r}; it must be a list of distinct strings, all "
                "agents that there may be"
            )
        self._policy_mapping = PolicyMapping.of_config(self.config)
        self._policy_mapping.check(agents)
        pool.single_observation_space = pool.observation_space = _TEXT
        pool.single_action_space = pool.action_space = _TEXT

    @override(EnvRunner)
    def get_spaces(self) -> dict[str, tuple[gym.Space, gym.Space]]:
        names = (INPUT_ENV_SPACES, INPUT_ENV_SINGLE_SPACES, *self.config.policies)
        return dict.fromkeys(names, (_TEXT, _TEXT))

    @override(SingleAgentEnvRunner)
    def make_module(self) -> None:
        spec = self.config.get_multi_rl_module_spec(spaces=self.get_spaces(), inference_only=True)
        if self.config.engine != "hf":
            # One with a copy in memory of a base model that several share would look for weights.
            spec.multi_rl_module_class = MultiRLModule
            for module_spec in spec.rl_module_specs.values():
                facade_spec(module_spec)
        self.module = spec.build()

    @override(GroupEnvRunner)
    def _make_rollout(self, pool: EnvironmentPool) -> GroupRollout:
        modules = dict(self.module.items())
        self.engines, of_rollouts = build_engines(self.config, modules, device=self._device)
        return MultiAgentGroupRollout(
            possible_agents=pool.possible_agents,
            rl_modules=modules,
            policy_mapping=self._policy_mapping,
            pool=pool,
            engine=of_rollouts,
            env_to_module=self._env_to_module,
            module_to_env=self._module_to_env,
            stall_timeout_s=self.config.rollout_stall_timeout_s,
        )

    @override(GroupEnvRunner)
    def _count_sampled(self, episodes: list[SingleAgentEpisode]) -> None:
        trajectories = by_trajectory(episodes)
        steps = sum(env_steps(trajectory) for trajectory in trajectories)
        self._count(NUM_ENV_STEPS_SAMPLED, NUM_ENV_STEPS_SAMPLED_LIFETIME, steps)
        self._count(NUM_EPISODES, NUM_EPISODES_LIFETIME, len(trajectories))
        for episode in episodes:
            of_agent = (NUM_AGENT_STEPS_SAMPLED, episode.agent_id), (NUM_AGENT_STEPS_SAMPLED_LIFETIME, episode.agent_id)
            self._count(*of_agent, len(episode))
            module_id = episode.module_id
            self._count(
                (NUM_MODULE_STEPS_SAMPLED, module_id), (NUM_MODULE_STEPS_SAMPLED_LIFETIME, module_id), len(episode)
            )

    def _count(self, key: str | tuple, lifetime_key: str | tuple, number: int) -> None:
        throughput = lifetime_key == NUM_ENV_STEPS_SAMPLED_LIFETIME
        self.metrics.log_value(key, number, reduce="sum")
        self.metrics.log_value(lifetime_key, number, reduce="lifetime_sum", with_throughput=throughput)
