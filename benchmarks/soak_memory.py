"""Resident memory of driver, env runner and learner over many tiny iterations."""

from __future__ import annotations

import gc
from typing import Any

import psutil
import ray

from rllib_gigpo.algorithms.gigpo import GiGPOConfig
from rllib_gigpo.env_adapters import embedded_model_path
from rllib_gigpo.env_checks.check_result import CheckResult, failed, passed

# A process may grow by so much, from the first measurement to the last.
MOST_GROWTH = 0.10
_MB = 2**20


def memory(*, first: int = 20, last: int = 200) -> list[CheckResult]:
    """Trains `last` iterations, and compares the memory of each process with that after `first`."""
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        algo = config().build_algo()
        measured = []
        for iteration in range(1, last + 1):
            algo.train()
            if iteration in (first, last):
                measured.append(resident_mb(algo))
        algo.stop()
    finally:
        ray.shutdown()
    return [_judged(name, before, measured[1][name], first, last) for name, before in measured[0].items()]


def config() -> Any:
    """Two groups of two, of short responses, with an env runner and a learner in processes of their own."""
    return (
        GiGPOConfig()
        .environment("EZPoints")
        .language_model(model_path=str(embedded_model_path("EZPoints")))
        .generation(max_prompt_tokens=160, max_response_tokens=8)
        .training(group_size=2, groups_per_iteration=2, train_on_zero_signal_groups=True)
        .env_runners(num_env_runners=1)
        .learners(num_learners=1)
        .debugging(seed=0)
    )


def resident_mb(algo: Any) -> dict[str, float]:
    """Resident memory of each process, MB, after a collection of garbage."""

    def own(_: Any = None) -> float:
        gc.collect()
        return psutil.Process().memory_info().rss / _MB

    (of_runner,) = algo.env_runner_group.foreach_env_runner(own, local_env_runner=False)
    (of_learner,) = [answer.get() for answer in algo.learner_group.foreach_learner(own)]
    return {"driver": own(), "env runner": of_runner, "learner": of_learner}


def _judged(name: str, before: float, after: float, first: int, last: int) -> CheckResult:
    growth = after / before - 1
    seen = f"{before:.0f} MiB after {first} iterations, {after:.0f} after {last}: {growth:+.1%}"
    return passed(name, seen) if growth <= MOST_GROWTH else failed(name, seen, f"growth of {MOST_GROWTH:.0%} at most")
