"""Checks of what an environment takes from its process, and of what travels between processes."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import psutil

from rllib_gigpo.env_checks.check_result import CheckResult, described_error, failed, not_applicable, passed
from rllib_gigpo.env_checks.player import Player
from rllib_gigpo.env_checks.recording import FIRST_EVALUATION_TASK, Trajectory, close_quietly, play
from rllib_gigpo.seeds import derive_seed

_MIB = 2**20
# Steady growth: an allocator that takes a block now and then stays below, a leak of 10 KiB a step does not.
_LEAK_BYTES = 4 * _MIB
_LEAK_BYTES_OF_A_HALF = 1 * _MIB
_CLOSE_CYCLES = 3


def check_pickling(make: Callable[[], Player], trajectories: Sequence[Trajectory]) -> CheckResult:
    """Class, spaces, and what is shown travel between processes; whether the object would is told."""
    from ray import cloudpickle

    player = make()
    try:
        parts: dict[str, Any] = {"the class": type(player.env.unwrapped), "the spaces": player.spaces()}
        for trajectory in trajectories:
            for moment in trajectory.moments:
                parts["what reset and step show"] = (moment.observations, moment.infos)
                if error := _pickling_error(parts, cloudpickle.dumps):
                    fix = "env runners send it to the driver: keep open files, locks and generators out of it"
                    return failed("pickling", error, fix)
                parts = {}
        whole = _pickling_error({"a new object": player.env}, cloudpickle.dumps)
    finally:
        close_quietly(player)
    return passed("pickling", f"class, spaces and answers; {whole or 'a new object too'}")


def check_close(make: Callable[[], Player], task: int, seed: int) -> CheckResult:
    """`close` can be called twice, and leaves no open file, thread or child process."""
    kept = []  # an environment must not need the garbage collector to be freed
    before: dict[str, int] = {}
    # The first cycle opens what a process opens once: fonts, libraries, thread pools.
    for cycle in range(1 + _CLOSE_CYCLES):
        player = make()
        kept.append(player)
        player.reset(task, seed)
        try:
            player.env.close()
            player.env.close()
        except Exception as error:  # an environment may raise anything
            return failed("close", f"close() raised {described_error(error)}", "close() may be called twice")
        if cycle == 0:
            before = _holdings()
    after = _holdings()
    left = {name: after[name] - before[name] for name in before if after[name] - before[name] >= _CLOSE_CYCLES}
    if left:
        seen = ", ".join(f"{count} {name}" for name, count in left.items())
        return failed("close", f"{seen} left by {_CLOSE_CYCLES} closed environments", "close() must free everything")
    return passed("close", f"twice without an error; {', '.join(before)} as before")


def check_memory(make: Callable[[], Player], episodes: int, seed: int, max_steps: int) -> CheckResult:
    """The process does not grow steadily while random episodes are played."""
    if episodes < 3:
        return not_applicable("memory", "needs 3 episodes at least")
    player = make()
    sizes = []
    # What is there now is left out: going through the objects of torch and Ray takes seconds.
    gc.freeze()
    try:
        for part in range(3):  # the first one warms up: caches, code, the allocator
            for index in range(episodes * part // 3, episodes * (part + 1) // 3):
                task = derive_seed(seed, "memory", index) % FIRST_EVALUATION_TASK
                trajectory = play(player, "random", task, seed=seed, max_steps=max_steps)
                if trajectory.error:
                    return not_applicable("memory", trajectory.error)
            gc.collect()
            sizes.append(psutil.Process().memory_info().rss)
    finally:
        gc.unfreeze()
        close_quietly(player)
    halves = [sizes[1] - sizes[0], sizes[2] - sizes[1]]
    seen = f"{sum(halves) / _MIB:+.1f} MiB over {episodes - episodes // 3} of {episodes} episodes"
    if sum(halves) > _LEAK_BYTES and min(halves) > _LEAK_BYTES_OF_A_HALF:
        return failed("memory", seen, "reset() must let go of the last episode; bound caches")
    return passed("memory", seen)


def _holdings() -> dict[str, int]:
    process = psutil.Process()
    return {
        "open files": process.num_fds() if hasattr(process, "num_fds") else process.num_handles(),
        "threads": process.num_threads(),
        "child processes": len(process.children(recursive=True)),
    }


def _pickling_error(parts: dict[str, Any], dumps: Callable[[Any], bytes]) -> str:
    """Which part does not pickle, and why; "" where all do."""
    for name, part in parts.items():
        try:
            dumps(part)
        except (pickle.PicklingError, TypeError, AttributeError, ValueError, RecursionError) as error:
            return f"{name} does not pickle: {described_error(error)}"
    return ""
