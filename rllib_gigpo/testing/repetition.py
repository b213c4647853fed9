"""Whole trajectories, played again in new processes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rllib_gigpo.env_checks.making import creator
from rllib_gigpo.env_checks.new_process import starts_in_new_process
from rllib_gigpo.env_checks.recording import tasks_for
from rllib_gigpo.env_checks.replay import replay
from rllib_gigpo.testing.contract import Environment, EnvironmentContractError, environment_name


def check_repeats(
    env: Environment, env_config: Mapping[str, Any] | None = None, *, tasks: int = 4, steps: int = 10, seed: int = 0
) -> None:
    """Plays equal actions here and in two new processes with other salts of hashes; everything shown must be equal.

    The contract asks this of first observations alone, and `check_env` checks that: this is for environments that draw
    nothing after the start.

    Args:
        env, env_config: As in `check_env`.
        tasks: How many.
        steps: Random actions after each start.
        seed: Of tasks, resets and actions.

    Raises:
        EnvironmentContractError: A step is answered differently; the message has the task and the step.
        RuntimeError: The new process failed.
        ValueError: As in `check_env`.
    """
    name, options = environment_name(env), dict(env_config or {})
    chosen = tasks_for(seed, tasks)
    here = replay(creator(name, options), chosen, seed, steps)
    for salt in ("1", "2"):
        there = starts_in_new_process(name, options, chosen, seed, steps=steps, salt=salt)
        for task, one, other in zip(chosen, here, there, strict=True):
            for step, (shown, shown_there) in enumerate(zip(one.split("\n"), other.split("\n"), strict=False)):
                if shown != shown_there:
                    raise EnvironmentContractError(
                        f"{name}: task {task}, step {step}: this process shows {shown[:200]}, a new one "
                        f"{shown_there[:200]}"
                    )
            if one != other:
                raise EnvironmentContractError(f"{name}: task {task} ends earlier in one process than in another")
