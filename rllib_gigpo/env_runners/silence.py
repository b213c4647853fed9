"""Agents that never act, and modules that act for nobody."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Sequence

from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from rllib_gigpo.env_runners.agent_metrics import silent_agents
from rllib_gigpo.env_runners.trajectories import by_trajectory

logger = logging.getLogger(__name__)

# Not the first: where an agent gets its turn only after another has done well, it may have to wait for that.
SILENT_ITERATIONS_ALLOWED = 9


class SilenceWatch:
    """Warns of silence in each iteration, and ends a run in which a module that is to learn goes on without an act.

    Args:
        module_ids: All modules.
        may_learn: Whether a module is to be trained; the others may be silent for ever.
    """

    def __init__(self, module_ids: Collection[str], may_learn: Callable[[str], bool]):
        self._silent_iterations = dict.fromkeys(sorted(module_ids), 0)
        self._may_learn = may_learn

    def look_at(self, episodes: Sequence[SingleAgentEpisode], counts: Counter[str]) -> None:
        """Of one iteration; of a single agent there is nothing to say.

        Raises:
            RuntimeError: A module that is to learn acted for no agent in more than SILENT_ITERATIONS_ALLOWED
                iterations on end.
        """
        if not episodes or episodes[0].agent_id is None:
            return
        for agent_id in silent_agents(episodes, counts):
            logger.warning(
                "agent %r acted in none of the %d trajectories of this iteration, so nothing is learned for it: the "
                "environment never showed it anything. If that stays so, look at its observations, or take it out of "
                "possible_agents.",
                agent_id,
                len(by_trajectory(episodes)),
            )
        acted = {episode.module_id for episode in episodes}
        for module_id, before in self._silent_iterations.items():
            self._silent_iterations[module_id] = 0 if module_id in acted else before + 1
            if module_id not in acted:
                self._complain(module_id)

    def _complain(self, module_id: str) -> None:
        iterations = self._silent_iterations[module_id]
        logger.warning("module %r acted for no agent in this iteration, so it learns nothing", module_id)
        if iterations > SILENT_ITERATIONS_ALLOWED and self._may_learn(module_id):
            raise RuntimeError(
                f"module {module_id!r} acted for no agent in {iterations} iterations on end, so it learns nothing: "
                "either the environment never shows anything to the agents that policy_mapping_fn gives it, or there "
                f"are none. Correct that, or take {module_id!r} out of multi_agent(policies=…), or out of "
                "policies_to_train where it has nothing to learn."
            )
