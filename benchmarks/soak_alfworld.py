"""Plays many random episodes of ALFWorld in several processes and watches failures, speed and memory.

    python benchmarks/soak_alfworld.py --workers 4 --episodes 200
    python benchmarks/soak_alfworld.py --workers 1 --episodes 1000 --max-steps 10

Each process plays its share of the episodes, every one another game, made up on the spot or from $ALFWORLD_DATA. Prints
per process the episodes, wins, steps per second and resident memory after a tenth of the episodes and at the end. Exits
with an error where an episode fails or memory grows by more than --most-growth.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import NamedTuple

import numpy as np

from rllib_gigpo.env_adapters.alfworld.alfworld_env import ALFWorld


class Outcome(NamedTuple):
    """What one process saw."""

    episodes: int
    wins: int
    failures: list[str]
    steps_per_second: float
    early_megabytes: float
    final_megabytes: float


def play(worker: int, *, episodes: int, max_steps: int) -> Outcome:
    """Plays the games of one process."""
    env = ALFWorld(max_steps=max_steps)
    rng = np.random.default_rng(worker)
    wins, steps, failures, early = 0, 0, [], 0.0
    start = time.perf_counter()
    for episode in range(episodes):
        try:
            _, info = env.reset(options={"task": worker * episodes + episode})
            ended = False
            while not ended:
                actions = info["admissible_actions"]
                _, _, terminated, truncated, info = env.step(actions[rng.integers(len(actions))])
                ended, steps = terminated or truncated, steps + 1
            wins += info["won"]
        except Exception as error:  # what is looked for
            failures.append(f"worker {worker}, episode {episode}: {type(error).__name__}: {error}")
        if episode == max(episodes // 10, min(40, episodes - 1)):
            early = resident_megabytes()
    rate = steps / (time.perf_counter() - start)
    return Outcome(episodes, wins, failures, rate, early, resident_megabytes())


def resident_megabytes() -> float:
    """Resident memory of this process."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def main() -> None:
    """Starts the processes and prints what they saw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--episodes", type=int, default=200, help="of all processes together")
    parser.add_argument("--max-steps", type=int, default=50)
    parser.add_argument("--most-growth", type=float, default=10.0, help="megabytes a process")
    arguments = parser.parse_args()

    share = partial(play, episodes=arguments.episodes // arguments.workers, max_steps=arguments.max_steps)
    with ProcessPoolExecutor(arguments.workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        outcomes = list(pool.map(share, range(arguments.workers)))
    for worker, outcome in enumerate(outcomes):
        print(
            f"worker {worker}: {outcome.episodes} episodes, {outcome.wins} won, {len(outcome.failures)} failed, "
            f"{outcome.steps_per_second:.1f} steps/s, {outcome.early_megabytes:.0f} MB early, "
            f"{outcome.final_megabytes:.0f} MB at the end"
        )
    print(f"all: {sum(outcome.steps_per_second for outcome in outcomes):.1f} steps/s")
    failures = [failure for outcome in outcomes for failure in outcome.failures]
    grown = [o for o in outcomes if o.final_megabytes - o.early_megabytes > arguments.most_growth]
    if failures or grown:
        sys.exit("\n".join([*failures, *(f"memory grew by more than {arguments.most_growth} MB" for _ in grown)]))


if __name__ == "__main__":
    main()
