"""Self-play: one agent learns against frozen copies of what it was before."""

from __future__ import annotations

from typing import Any

from ray.rllib.core.learner.learner_group import LearnerGroup

from rllib_gigpo.columns import GROUP_ID, IN_EVALUATION
from rllib_gigpo.seeds import derive_seed

# Modules: the one that learns, and the weights that it began with.
LEARNER = "learner"
FIRST_VERSION = "first_version"


def past_version(number: int) -> str:
    """Module of one of the copies that are kept, from 1."""
    return f"past_{number}"


def self_play_modules(past_versions: int) -> list[str]:
    """All modules of a self-play with so many copies, an integer of at least 1.

    Raises:
        ValueError: It is something else.
    """
    if not isinstance(past_versions, int) or isinstance(past_versions, bool) or past_versions < 1:
        raise ValueError(f"past_versions={past_versions!r} must be an integer of at least 1.")
    return [LEARNER, FIRST_VERSION, *(past_version(number + 1) for number in range(past_versions))]


class OpponentMapping:
    """A `policy_mapping_fn`: LEARNER acts for one agent, earlier versions of it for all others.

    In training, every rollout group has an opponent of its own, drawn from FIRST_VERSION and the copies that are kept:
    members of a group are compared with each other, and must not differ in whom they play. In evaluation it is always
    FIRST_VERSION, so that the success on the panel is the share of wins against that.

    Args:
        agent_id: Whom LEARNER acts for.
        past_versions: How many copies are kept.
    """

    def __init__(self, agent_id: str, past_versions: int):
        self._agent_id = agent_id
        self._opponents = [module for module in self_play_modules(past_versions) if module != LEARNER]

    def __call__(self, agent_id: str, episode: Any, **kwargs: Any) -> str:
        if agent_id == self._agent_id:
            return LEARNER
        # An episode that is not of a rollout asks whether there is a module at all.
        if GROUP_ID not in episode.custom_data or episode.custom_data[IN_EVALUATION]:
            return FIRST_VERSION
        draw = derive_seed("opponent", episode.custom_data[GROUP_ID])
        return self._opponents[draw % len(self._opponents)]


def refresh_opponents(learner_group: LearnerGroup, iteration: int, *, past_versions: int, interval: int) -> str | None:
    """Copies the weights of LEARNER over those of the oldest copy, on every learner, if it is time.

    Args:
        learner_group: All learners.
        iteration: The one whose update is over, from 1.
        past_versions: How many copies are kept.
        interval: Iterations from one copy to the next.

    Returns:
        The module that was written; None where it is not time.

    Raises:
        RuntimeError: A learner failed.
    """
    if iteration % interval:
        return None
    module_id = past_version((iteration // interval - 1) % past_versions + 1)

    def copy(learner: Any) -> None:
        state = learner.module[LEARNER].unwrapped().get_state()
        learner.module[module_id].unwrapped().set_state(state)

    for result in learner_group.foreach_learner(copy):
        if not result.ok:
            raise RuntimeError(f"a learner could not keep a copy of its weights: {result.get()}") from result.get()
    return module_id
