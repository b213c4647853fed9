"""Which module acts for an agent: RLlib's `policy_mapping_fn`, with its answers checked."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode


class PolicyMapping:
    """From an agent, of an episode, to its module.

    Args:
        policy_mapping_fn: RLlib's `(agent_id, episode, **kwargs) -> module id`.
        module_ids: The modules that there are.
    """

    def __init__(self, policy_mapping_fn: Callable[..., Any], module_ids: Collection[str]):
        self._map = policy_mapping_fn
        self._module_ids = module_ids

    @classmethod
    def of_config(cls, config: AlgorithmConfig) -> PolicyMapping:
        """The mapping of a config to its `policies`."""
        # RLlib's default wants an argument that nobody gives it any more.
        is_default = config.policy_mapping_fn is AlgorithmConfig.DEFAULT_POLICY_MAPPING_FN
        return cls(_to_default_module if is_default else config.policy_mapping_fn, list(config.policies))

    def __call__(self, agent_id: str, episode: MultiAgentEpisode) -> str:
        """The module of an agent. Raises ValueError where there is none of that id."""
        module_id = self._map(agent_id, episode)
        if module_id not in self._module_ids:
            raise ValueError(
                f"policy_mapping_fn maps agent {agent_id!r} to module {module_id!r}, which is not one of "
                f"{sorted(self._module_ids)}: add it to multi_agent(policies=…), or correct the function"
            )
        return str(module_id)

    def check(self, agent_ids: Collection[str]) -> None:
        """Maps every agent, in an episode that has not begun. Raises ValueError; the message names the agent."""
        for agent_id in agent_ids:
            try:
                self(agent_id, MultiAgentEpisode())
            except ValueError:
                raise
            except Exception as error:
                raise ValueError(
                    f"policy_mapping_fn raised {type(error).__name__} for agent {agent_id!r}: {error}; it is called as "
                    "policy_mapping_fn(agent_id, episode)"
                ) from error


def _to_default_module(agent_id: str, episode: MultiAgentEpisode) -> str:
    return DEFAULT_MODULE_ID
