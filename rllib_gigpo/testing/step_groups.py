"""How often members of a rollout group meet the same state, which is what step-level credit is made of."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from rllib_gigpo.columns import ANCHOR_STATE
from rllib_gigpo.connectors.anchor_states import anchor_state_ids, step_group_diagnostics
from rllib_gigpo.env_checks.making import creator
from rllib_gigpo.env_checks.recording import tasks_for
from rllib_gigpo.testing.contract import Environment, environment_name
from rllib_gigpo.testing.random_play import moments_before_actions


def step_group_statistics(
    env: Environment,
    env_config: Mapping[str, Any] | None = None,
    *,
    tasks: int = 4,
    group_size: int = 8,
    seed: int = 0,
    max_steps: int = 100,
) -> dict[str, float]:
    """Plays groups at random and looks at their anchor states: `info["anchor_state"]` where a step has it, else the
    observation.

    Where `anchor_singleton_share` is near 1, no state is ever met twice, and GiGPO is no more than GRPO: look for what
    the observation holds that changes every step, or give an `anchor_state` without it. A policy that knows the game
    meets fewer states than random play, and its members meet each other more often.

    Args:
        env, env_config: As in `check_env`.
        tasks: Groups to play.
        group_size: Members, which differ in their actions.
        seed: Of tasks, resets and actions.
        max_steps: Of an episode.

    Returns:
        As `step_group_diagnostics`: anchor_group_size_mean, anchor_singleton_share and anchor_rows_share_….

    Raises:
        ValueError: As in `check_env`.
        TypeError: An anchor state is no text, number or array, nor made of these.
    """
    make = creator(environment_name(env), dict(env_config or {}))
    states: list[Any] = []
    groups: list[Hashable] = []
    for task in tasks_for(seed, tasks):
        for member in range(group_size):
            for agent, episode in moments_before_actions(make, task, seed, max_steps=max_steps, member=member):
                observation = episode.get_observations(-1)
                states.append(episode.get_infos(-1).get(ANCHOR_STATE, observation))
                groups.append((task, agent))
    return step_group_diagnostics(anchor_state_ids(states, groups))
