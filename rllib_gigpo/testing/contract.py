"""The environment contract as one assertion."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from rllib_gigpo.env_checks import CheckResult, Status, check_contract

Environment = str | Callable[[Any], Any]


class EnvironmentContractError(AssertionError):
    """An environment breaks a rule that training relies on."""


def check_env(
    env: Environment,
    env_config: Mapping[str, Any] | None = None,
    *,
    episodes: int = 30,
    seed: int = 0,
    max_steps: int = 1000,
    new_process: bool = True,
    warnings_allowed: Collection[str] = (),
) -> list[CheckResult]:
    """Plays an environment and checks it against the contract, as `rllib doctor env` does.

    Args:
        env: A registered name, a Gymnasium id, a class path, or an importable class or function.
        env_config: As in `config.environment(env, env_config=…)`.
        episodes: Random episodes to play.
        seed: Of tasks, resets and random actions.
        max_steps: An episode that is longer counts as endless.
        new_process: Whether to start tasks in a new Python process too, which takes seconds.
        warnings_allowed: Names of checks that may end with a warning.

    Returns:
        The result of each check.

    Raises:
        EnvironmentContractError: A check failed, or warned; the message has a line for each, with what was seen and the
            fix.
        ValueError: There is no such environment, or a class or function that no other process can import.
    """
    results = check_contract(
        environment_name(env),
        env_config,
        episodes=episodes,
        seed=seed,
        max_steps=max_steps,
        new_process=new_process,
    )
    wrong = [
        result
        for result in results
        if result.status == Status.FAIL or (result.status == Status.WARNING and result.name not in warnings_allowed)
    ]
    if wrong:
        lines = [f"{result.status} {result.name}: {result.seen}. Fix: {result.fix}" for result in wrong]
        raise EnvironmentContractError("\n".join([f"{environment_name(env)} {dict(env_config or {})}", *lines]))
    return results


def environment_name(env: Environment) -> str:
    """The name of an environment, by which another process finds it; of a class or function its path.

    Raises:
        ValueError: It is defined inside a function, or in a script.
    """
    if isinstance(env, str):
        return env
    module, name = getattr(env, "__module__", ""), getattr(env, "__qualname__", "")
    if not module or module == "__main__" or not name.isidentifier():
        raise ValueError(f"{env!r} cannot be imported by another process; define it at the top of a module")
    return f"{module}.{name}"
