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
from rllib_gigpo.env_checks.making import make
from rllib_gigpo.env_checks.player import Player
from rllib_gigpo.env_checks.recording import close_quietly, record, tasks_for


def check_contract(
    name: str,
    env_config: Mapping[str, Any] | None = None,
    *,
    episodes: int = 30,
    seed: int = 0,
    max_steps: int = 1000,
) -> list[CheckResult]:
    """Checks an environment against the contract of environments.

    Args:
        name: A registered name, a Gymnasium id or a class path "package.module.Class".
        env_config: As in `config.environment(name, env_config=…)`.
        episodes: Random episodes to play, on as many tasks, and once more for the check of memory.
        seed: Of tasks, resets and random actions.
        max_steps: An episode that is longer counts as endless.

    Returns:
        One result a check. Checks that need another to pass are not applicable where it does not.

    Raises:
        ValueError: No environment has that name, or `episodes` or `max_steps` is below 1.
    """
    if min(episodes, max_steps) < 1:
        raise ValueError(f"episodes={episodes} and max_steps={max_steps} must be 1 at least")
    env_config = dict(env_config or {})

    def new_player() -> Player:
        return Player(make(name, env_config))

    try:
        player = new_player()
    # An unknown name is the caller's mistake; what the environment's own code raises is a finding.
    except Exception as error:
        _check_name(name)
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
        some, task = tasks[:8], tasks[0]
        later = _Chain(results)
        api = "rllib check_env" if player.is_multi_agent else "gymnasium check_env"
        later.run(api, ("spaces", "answers"), lambda: space_checks.check_api(player))
        later.run(
            "determinism, one object", ("answers",), lambda: start_checks.check_one_object(new_player, some, seed)
        )
        later.run(
            "determinism, two objects",
            ("determinism, one object",),
            lambda: start_checks.check_second_object(new_player, some, seed),
        )
        later.run(
            "determinism, new process",
            ("determinism, two objects",),
            lambda: start_checks.check_new_process(new_player, name, env_config, some, seed),
        )
        later.run("group", ("determinism, two objects",), lambda: start_checks.check_group(new_player, task, seed))
        later.run("tasks differ", ("answers",), lambda: start_checks.check_tasks_differ(trajectories))
        later.run(
            "stepping order",
            ("answers", "endings"),
            lambda: start_checks.check_stepping_order(new_player, task, seed, max_steps),
        )
        later.run("pickling", ("answers",), lambda: resource_checks.check_pickling(new_player, trajectories))
        later.run("close", ("answers",), lambda: resource_checks.check_close(new_player, task, seed))
        speed = answer_checks.measure_speed(trajectories)
        trajectories.clear()
        later.run(
            "memory",
            ("answers", "endings", "reset after the end"),
            lambda: resource_checks.check_memory(new_player, episodes=episodes, seed=seed, max_steps=max_steps),
        )
    finally:
        close_quietly(player)
    return [*results, speed]


class _Chain:
    """Runs checks that make sense only after others."""

    def __init__(self, results: list[CheckResult]):
        self._results = results

    def run(self, name: str, needs: tuple[str, ...], check: Callable[[], CheckResult]) -> None:
        """Appends the result of `check`, unless one of `needs` has not passed."""
        status = {result.name: result.status for result in self._results}
        missing = next((need for need in needs if status[need] in (Status.FAIL, Status.NOT_APPLICABLE)), None)
        if missing is not None:
            self._results.append(not_applicable(name, f"needs {missing!r} to pass"))
            return
        try:
            self._results.append(check())
        except Exception as error:  # of the environment, which may raise anything
            self._results.append(failed(name, described_error(error), "nothing may be raised here"))


def _check_name(name: str) -> None:
    """Raises ValueError for an unknown name."""
    from rllib_gigpo.environments import check_environment

    check_environment(name)
