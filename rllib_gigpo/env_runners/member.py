"""A trajectory of a rollout group while it is rolled out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import Any

from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from rllib_gigpo.columns import GROUP_ID, MEMBER, TASK
from rllib_gigpo.env_runners.environment_pool import LentEnvironment
from rllib_gigpo.env_runners.rollout_plan import GroupPlan
from rllib_gigpo.images import ImageStore, observation_key, stored_observation
from rllib_gigpo.inference.protocol import InferenceClient


class Member(ABC):
    """One trajectory of a group.

    Attributes:
        group: Its group.
        index: Its place in the group.
        env: Its environment, reset.
        images: What the environments of its group have shown.
        client: Its door to the engine, from the moment on at which its whole group has started.
        ending: None until it has ended.
        response_tokens: Tokens sampled so far, of all agents.
    """

    client: InferenceClient

    def __init__(self, group: GroupPlan, index: int, env: LentEnvironment, images: ImageStore):
        self.group = group
        self.index = index
        self.env = env
        self.images = images
        self.ending: str | None = None
        self.response_tokens = 0

    @property
    @abstractmethod
    def start(self) -> Hashable:
        """What the environment showed first; equal for all members of a group."""

    @abstractmethod
    def episodes(self) -> list[SingleAgentEpisode]:
        """What can be trained on: its episodes with at least one step, one for each agent that acted."""

    def marks(self) -> dict[str, Any]:
        """What the info of an episode's reset gets."""
        return {GROUP_ID: self.group.group_id, MEMBER: self.index, TASK: self.group.task}


class SingleAgentMember(Member):
    """A trajectory of a `gymnasium.Env`: one episode.

    Args:
        group, index, env, images: See `Member`.
        observation, info: What the environment's `reset` returned.
    """

    def __init__(
        self,
        group: GroupPlan,
        index: int,
        env: LentEnvironment,
        images: ImageStore,
        *,
        observation: Any,
        info: dict[str, Any],
    ):
        super().__init__(group, index, env, images)
        self.episode = SingleAgentEpisode()
        self.episode.add_env_reset(stored_observation(observation, images), {**info, **self.marks()})
        self.shared_data: dict[str, Any] = {}

    @property
    def start(self) -> Hashable:
        return observation_key(self.episode.get_observations(0))

    def episodes(self) -> list[SingleAgentEpisode]:
        return [self.episode] if len(self.episode) > 0 else []
