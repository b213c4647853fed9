"""Training while processes are killed on a schedule: does it end, does every group count once, does it learn?"""

from __future__ import annotations

import json
import os
import signal
import tempfile
from collections.abc import Mapping
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
import ray
from ray import tune
from soak_chaos_env import HANG, KILL_RUNNER, KILL_WORKER, RAISE, ObeysOrders

from rllib_gigpo.algorithms.gigpo import GiGPOConfig
from rllib_gigpo.env_adapters import embedded_model_path
from rllib_gigpo.env_adapters.gym_cards import EZPOINTS
from rllib_gigpo.env_checks.check_result import CheckResult, failed, informed, passed

KILL_LEARNER = "kill_learner"
OF_ENVIRONMENTS = (KILL_RUNNER, KILL_WORKER, HANG, RAISE)

# Of tuned_examples/gigpo/ezpoints_text_tiny.py, which learns within ten iterations.
GROUP_SIZE, GROUPS = 8, 8
STEP_TIMEOUT_S = 10.0
# The embedded model begins at 0.1.
LEAST_SUCCESS = 0.5


def schedule(iterations: int, *, seed: int) -> dict[int, str]:
    """Which fault happens in which iteration: one in each but the first and the last, of a learner once."""
    count = iterations - 2
    faults = [KILL_LEARNER, *islice(cycle(OF_ENVIRONMENTS), count - 1)]
    np.random.default_rng(seed).shuffle(faults)
    return {iteration + 2: str(fault) for iteration, fault in enumerate(faults)}


def order_next_fault(algorithm: Any, result: Mapping[str, Any], **_: Any) -> None:
    """Has the fault of the next iteration happen in it; each once, also where iterations are repeated.

    A learner is killed at once, before this iteration's checkpoint is saved.
    """
    settings = algorithm.config.env_config
    orders, iteration = Path(settings["orders"]), result["training_iteration"] + 1
    fault, done = settings["schedule"].get(iteration), orders / f"done-{iteration}"
    if fault is None or done.exists():
        return
    done.touch()
    if fault == KILL_LEARNER:
        (pid,) = [answer.get() for answer in algorithm.learner_group.foreach_learner(lambda learner: os.getpid())]
        os.kill(pid, signal.SIGKILL)
    else:
        (orders / fault).touch()


def config(orders: Path, faults: Mapping[int, str]) -> Any:
    """GiGPO on EZPoints with two env runners, two environment workers each, and a learner."""
    return (
        GiGPOConfig()
        .environment(ObeysOrders, env_config={"orders": str(orders), "schedule": dict(faults)})
        .language_model(model_path=str(embedded_model_path("EZPoints")))
        # A wrapper has no agent format of its own, and without one prompts show history, which the model does not know.
        .agent_format(
            prompt_template=EZPOINTS.agent_format.prompt_template, history_length=EZPOINTS.agent_format.history_length
        )
        .generation(max_prompt_tokens=160, max_response_tokens=32)
        .training(
            group_size=GROUP_SIZE,
            groups_per_iteration=GROUPS,
            num_minibatches=4,
            lr=3e-4,
            adam_betas=(0.9, 0.95),
            weight_decay=0.0,
            advantage_std_floor=1.0,
        )
        .env_runners(num_env_runners=2, env_workers=2, env_step_timeout_s=STEP_TIMEOUT_S, rollout_stall_timeout_s=60)
        .learners(num_learners=1)
        .reporting(recorded_groups=0)
        .debugging(seed=0)
        .callbacks(on_train_result=order_next_fault)
    )


def train(folder: Path, iterations: int, faults: Mapping[int, str]) -> tuple[tune.Result, list[dict[str, Any]]]:
    """Trains under Tune, on the Ray that there is (4 CPUs): the result, and everything that was reported."""
    orders = folder / "orders"
    orders.mkdir()
    run_config = tune.RunConfig(
        name="run",
        storage_path=str(folder),
        stop={"training_iteration": iterations},
        checkpoint_config=tune.CheckpointConfig(checkpoint_frequency=1),
        failure_config=tune.FailureConfig(max_failures=2),
        verbose=0,
    )
    (result,) = tune.Tuner("GiGPO", param_space=config(orders, faults), run_config=run_config).fit()
    lines = (Path(result.path) / "result.json").read_text().splitlines()
    return result, [json.loads(line) for line in lines]


def judged(iterations: int, faults: Mapping[int, str], result: tune.Result, reports: list[Any]) -> list[CheckResult]:
    """Whether a run with faults has ended, and has counted every group once."""
    if result.error is not None:
        return [failed("ended", str(result.error), "faults must not end a run that Tune may continue")]
    last = reports[-1]["env_runners"]
    planned, kept, dropped = (last[f"{name}_lifetime"] for name in ("planned_groups", "kept_groups", "dropped_groups"))
    # A report of an iteration that a failure undid is followed by one of its repetition.
    uncounted = [
        report["training_iteration"]
        for report in reports
        if sum(report["env_runners"]["endings"].values()) != report["env_runners"]["planned_groups"] * GROUP_SIZE
        or report["env_runners"]["planned_groups"] != GROUPS
        or report["env_runners"]["kept_groups"] + report["env_runners"]["dropped_groups"] != GROUPS
    ]
    seen = f"{planned:.0f} groups planned, {kept:.0f} trained on, {dropped:.0f} lost and counted"
    adds_up = planned == iterations * GROUPS and kept + dropped == planned and not uncounted
    happened = {name for report in reports for name in _causes(report)} | {KILL_LEARNER} & set(faults.values())
    longest = max(report["time_this_iter_s"] for report in reports)
    return [
        passed("ended", f"{len(faults)} faults in {iterations} iterations: {_counted(faults)}"),
        passed("groups", seen) if adds_up else failed("groups", f"{seen}; {uncounted}", "each must be counted once"),
        informed("causes", ", ".join(sorted(happened))),
        informed("longest iteration", f"{longest:.0f} s, with the start of what was killed"),
    ]


def chaos(*, iterations: int, seed: int = 0) -> list[CheckResult]:
    """The same training with and without faults."""
    faults = schedule(iterations, seed=seed)
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
    try:
        runs = []
        for of_run in (faults, {}):
            with tempfile.TemporaryDirectory() as folder:
                runs.append(train(Path(folder), iterations, of_run))
    finally:
        ray.shutdown()
    results = judged(iterations, faults, *runs[0])
    if results[0].status != "pass":
        return results
    quiet_result, quiet = runs[1]
    results += [] if quiet_result.error is None else [failed("quiet run", str(quiet_result.error), "it must end")]
    return [*results, within_noise(runs[0][1], quiet)]


def within_noise(noisy: list[dict[str, Any]], quiet: list[dict[str, Any]], *, last: int = 10) -> CheckResult:
    """Whether success in the last iterations differs by less than three standard errors of a difference."""
    rates, variance = [], 0.0
    for reports in (noisy, quiet):
        won = [report["env_runners"].get("success_rate", np.nan) for report in reports[-last:]]
        rate = float(np.nanmean(won))
        rates.append(rate)
        # Members of a group share their task: groups are what is independent.
        variance += max(rate * (1 - rate), 0.05) / (last * GROUPS)
    seen = f"success {rates[0]:.2f} with faults, {rates[1]:.2f} without, in the last {last} iterations"
    if rates[1] < LEAST_SUCCESS:
        return failed("success", seen, f"without faults it must be at least {LEAST_SUCCESS}: else none can be lost")
    is_noise = abs(rates[0] - rates[1]) <= 3 * variance**0.5
    return passed("success", seen) if is_noise else failed("success", seen, "faults must not keep it from learning")


def _causes(report: Mapping[str, Any]) -> list[str]:
    rollouts = report["env_runners"]
    return [
        name
        for counts in ("env_failure_causes", "rollout_failure_causes")
        for name, count in rollouts.get(counts, {}).items()
        if count
    ]


def _counted(faults: Mapping[int, str]) -> str:
    names = list(faults.values())
    return ", ".join(f"{name} {names.count(name)}" for name in dict.fromkeys(sorted(names)))
