"""Environments in the env runner against environments in workers, side by side.

    python benchmarks/environment_pool.py [WORKERS ...]

64 environments take 20 steps each, all of them in every round, as a rollout on the `hf` engine has them do. A step
works for 5 ms of CPU, sleeps for 5 ms (as one that asks a server does), or does nothing, which leaves what a call
costs. Prints milliseconds per round and the ratio to in-line. No model samples. A worker answers the calls to its
environments one after the other, so sleeping gains by the number of workers, and working by the number of free cores.
"""

from __future__ import annotations

import asyncio
import statistics
import string
import sys
import time
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
from gymnasium import spaces

from rllib_gigpo.env_runners.environment_pool import EnvironmentPool, InlinePool
from rllib_gigpo.env_runners.environment_worker import CreatorContext
from rllib_gigpo.env_runners.worker_pool import WorkerLimits, WorkerPool

ENVIRONMENTS, ROUNDS, STEP_S = 64, 20, 0.005
KINDS = ("works 5 ms", "sleeps 5 ms", "does nothing")


class Slow(gym.Env):
    """An environment whose steps take what the benchmark wants."""

    def __init__(self, config: Mapping[str, Any]):
        self.observation_space = self.action_space = spaces.Text(100, min_length=0, charset=string.printable)
        self.kind = config["kind"]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        return "You are in a room.", {}

    def step(self, action: str) -> Any:
        if self.kind == KINDS[0]:
            end = time.thread_time() + STEP_S
            while time.thread_time() < end:
                pass
        elif self.kind == KINDS[1]:
            time.sleep(STEP_S)
        return "You are in a room.", 0.0, False, False, {"won": False}


async def milliseconds_per_round(pool: EnvironmentPool) -> tuple[float, float]:
    """Median and best."""
    envs = [await pool.acquire() for _ in range(ENVIRONMENTS)]
    await asyncio.gather(*(env.reset(seed=0, options={"task": 0}) for env in envs))
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        await asyncio.gather(*(env.step("look") for env in envs))
        times.append(1e3 * (time.perf_counter() - start))
    for env in envs:
        pool.release(env)
    return statistics.median(times), min(times)


def main() -> None:
    counts = [int(argument) for argument in sys.argv[1:]] or [1, 2, 4, 8]
    print(f"{'a step':14}{'workers':>8}{'ms median':>11}{'best':>8}{'in-line/workers':>17}{'start s':>9}{'MB each':>9}")
    for kind in KINDS:
        inline = InlinePool(lambda kind=kind: Slow({"kind": kind}), ENVIRONMENTS)
        median, best = asyncio.run(milliseconds_per_round(inline))
        print(f"{kind:14}{0:8}{median:11.1f}{best:8.1f}")
        for workers in counts:
            start = time.perf_counter()
            context = CreatorContext({"kind": kind}, 0, 0)
            pool = WorkerPool(Slow, context, ENVIRONMENTS, num_workers=workers, limits=WorkerLimits())
            started = time.perf_counter() - start
            own, own_best = asyncio.run(milliseconds_per_round(pool))
            memory = max(worker.process.rss_mb() for worker in pool._workers)
            pool.close()
            print(f"{kind:14}{workers:8}{own:11.1f}{own_best:8.1f}{median / own:17.2f}{started:9.2f}{memory:9.0f}")


if __name__ == "__main__":
    main()
