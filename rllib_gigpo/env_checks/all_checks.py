"""Runs all checks on one environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rllib_gigpo.env_checks import answer_checks, resource_checks, space_checks, start_checks
from rllib_gigpo.env_checks.check_result import (
    CheckResult,
    Status,
    described_error,
    failed,
    not_applicable,
    passed,
)
from rllib_gigpo.env_checks.making import creator
from rllib_gigpo.env_checks.player import Player
from rllib_gigpo.env_checks.recording import close_quietly, record, tasks_for


def check_contract(
    name: str,
    env_config: Mapping[str, Any] | None = None,
    *,
    episodes: int = 30,
    seed: int = 0,
    max_steps: int = 1000,
    new_process: bool = True,
) -> list[CheckResult]:
    """Checks an environment against the contract of environments.

    Args:
        name: A registered name, a Gymnasium id or a class path "package.module.Class".
        env_config: As in `config.environment(name, env_config=…)`.
        episodes: Random episodes to play, on as many tasks, and once more for the check of memory.
        seed: Of tasks, resets and random actions.
        max_steps: An episode that is longer counts as endless.
        new_process: Whether to check determinism in a new process, which takes seconds.

    Returns:
        One result a check. Checks that need another to pass are not applicable where it does not.

    Raises:
        ValueError: No environment has that name, or `episodes` or `max_steps` is below 1.
    """
    if min(episodes, max_steps) < 1:
        raise ValueError(f"episodes={episodes} and max_steps={max_steps} must be 1 at least")
    env_config = dict(env_config or {})

    make = creator(name, env_config)

    def new_player() -> Player:
        return Player(make())

    try:
        player = new_player()
    except Exception as error:  # an environment may raise anything
        return [failed("made", described_error(error), "the class must take what env_config holds")]
    results = [passed("made", f"{type(player.env.unwrapped).__name__} with env_config {env_config}")]
    tasks = tasks_for(seed, episodes)
    try:
        trajectories = record(new_player, tasks, seed=seed, max_steps=max_steps)
        results.append(space_checks.check_spaces(player, trajectories))
        results += [
            check(trajectories)
            for check in (
                answer_checks.check_answers,
                answer_checks.check_infos,
                answer_checks.check_anchor_states,
                answer_checks.check_rewards,
                answer_checks.check_admissible_actions,
                answer_checks.check_invalid_actions,
                answer_checks.check_endings,
                answer_checks.check_truncation,
                answer_checks.check_reset_after_end,
                answer_checks.check_global_random_state,
            )
        ]
        later = _Chain(results)
        api = "rllib check_env" if player.is_multi_agent else "gymnasium check_env"
        later.run(api, ("spaces", "answers"), space_checks.check_api, player)
        some, task = tasks[:8], tasks[0]
        one, two, new = (f"determinism, {where}" for where in ("one object", "two objects", "new process"))
        later.run(one, ("answers",), start_checks.check_one_object, new_player, some, seed)
        later.run(two, (one,), start_checks.check_second_object, new_player, some, seed)
        if new_process:
            later.run(new, (two,), start_checks.check_new_process, new_player, name, env_config, some, seed)
        later.run("group", (two,), start_checks.check_group, new_player, task, seed)
        later.run("tasks differ", ("answers",), start_checks.check_tasks_differ, trajectories)
        order = ("answers", "endings")
        later.run("stepping order", order, start_checks.check_stepping_order, new_player, task, seed, max_steps)
        later.run("pickling", ("answers",), resource_checks.check_pickling, new_player, trajectories)
        later.run("close", ("answers",), resource_checks.check_close, new_player, task, seed)
        results.append(answer_checks.measure_speed(trajectories))
        trajectories.clear()  # would weigh on the next one
        repeated = ("answers", "endings", "reset after the end")
        later.run("memory", repeated, resource_checks.check_memory, new_player, episodes, seed, max_steps)
    finally:
        close_quietly(player)
    return results


class _Chain:
    """Runs checks that make sense only after others."""

    def __init__(self, results: list[CheckResult]):
        self._results = results

    def run(self, name: str, needs: tuple[str, ...], check: Callable[..., CheckResult], *arguments: Any) -> None:
        """Appends the result of `check`, unless one of `needs` has not passed."""
        status = {result.name: result.status for result in self._results}
        missing = next((need for need in needs if status[need] in (Status.FAIL, Status.NOT_APPLICABLE)), None)
        if missing is not None:
            self._results.append(not_applicable(name, f"needs {missing!r} to pass"))
            return
        try:
            self._results.append(check(*arguments))
        except Exception as error:  # of the environment, which may raise anything
            self._results.append(failed(name, described_error(error), "nothing may be raised here"))
