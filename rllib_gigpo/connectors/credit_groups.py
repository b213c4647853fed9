"""Which step rows are compared with one another: those of one rollout group, agent and module."""

from __future__ import annotations

from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from rllib_gigpo.columns import GROUP_ID
from rllib_gigpo.seeds import derive_seed


def credit_group_id(episode: SingleAgentEpisode) -> int:
    """The rollout group's id; of an agent among several, an id of the rollout group, agent and module.

    The latter is a 63-bit digest: the same in every batch that the group may become a part of.

    Raises:
        ValueError: The info of the episode's reset has no group id.
    """
    info = episode.get_infos(0)
    if GROUP_ID not in info:
        raise ValueError(f'trajectory {episode.id_} has no "{GROUP_ID}" in the info of its reset')
    group_id: int = info[GROUP_ID]
    if episode.agent_id is None:
        return group_id
    return derive_seed("credit group", group_id, str(episode.agent_id), str(episode.module_id))
