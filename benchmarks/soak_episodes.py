"""Many episodes of an environment, by an expert and at random: who wins, how fast it is, what stays in memory."""

from __future__ import annotations

import gc
import time
from typing import Any

import numpy as np
import psutil
from soak_experts import EXPERTS, Choose

from rllib_gigpo.columns import WON
from rllib_gigpo.env_adapters import make_env
from rllib_gigpo.env_checks.check_result import CheckResult, failed, informed, passed
from rllib_gigpo.env_checks.player import Moment, Player
from rllib_gigpo.env_checks.recording import choose_actions, tasks_for

SEED = 0
WARM_UP = 0.1  # of the episodes: they fill caches and the allocator
# A process that keeps 5 KiB of each of 900 episodes grows by more; one whose allocator takes a block now and then does
# not.
MOST_GROWTH_MB = 4.0
# What an expert needs to see.
EXPERT_OPTIONS: dict[str, dict[str, Any]] = {name: {"walkthrough": True} for name in ("ALFWorld", "ALFWorldTiny")}


def soak_environment(name: str, *, episodes: int) -> list[CheckResult]:
    """Plays as many tasks at random, and then the same ones with the expert."""
    # At random first: what an expert remembers would count as memory of the environment.
    random = at_random(name, episodes=episodes)
    return [by_expert(name, episodes=episodes), *random]


def by_expert(name: str, *, episodes: int) -> CheckResult:
    """Does the expert win every task that can be won?"""
    player = Player(make_env(name, **EXPERT_OPTIONS.get(name, {})))
    possible, lost = 0, []
    for task in tasks_for(SEED, episodes):
        start = player.reset(task, SEED)
        choose = EXPERTS[name](player, task, start)
        if choose is None:
            continue
        possible += 1
        if not play(player, start, choose)[0]:
            lost.append(task)
    player.env.close()
    seen = f"{possible - len(lost):,} of {possible:,} tasks won"
    if possible < episodes:
        seen += f"; {episodes - possible:,} more that nobody can win"
    if lost or not possible:
        return failed("expert", f"{seen}; lost: {lost[:5]}", "every task that can be won must be")
    return passed("expert", seen)


def at_random(name: str, *, episodes: int) -> list[CheckResult]:
    """How often random admissible actions win, how fast that goes, and whether the process grows meanwhile."""
    player = Player(make_env(name))
    rng = np.random.default_rng(SEED)
    won = steps = 0
    early, warm_up = 0.0, int(WARM_UP * episodes)
    began = time.process_time()
    for played, task in enumerate(tasks_for(SEED, episodes)):
        if played == warm_up:
            early = resident_mb()
        is_won, length = play(player, player.reset(task, SEED), lambda moment: choose_actions("random", moment, 0, rng))
        won, steps = won + is_won, steps + length
    seconds = time.process_time() - began
    growth = (late := resident_mb()) - early
    player.env.close()
    memory = f"{early:.1f} MiB after {warm_up:,} episodes, {late:.1f} after {episodes:,}: {growth:+.1f}"
    fix = f"it must grow by no more than {MOST_GROWTH_MB} MiB"
    return [
        informed("random", f"{won / episodes:.3f} of {episodes:,} tasks won, {steps / episodes:.1f} steps an episode"),
        informed("speed", f"{steps / seconds:,.0f} steps per CPU second, with starts and the choice of actions"),
        passed("memory", memory) if growth <= MOST_GROWTH_MB else failed("memory", memory, fix),
    ]


def play(player: Player, moment: Moment, choose: Choose) -> tuple[bool, int]:
    """Goes on from `moment` to the end; whether it was won, and the number of steps."""
    steps = 0
    while not moment.ended:
        moment = player.step(choose(moment))
        steps += 1
    return any(moment.values(WON)), steps


def resident_mb() -> float:
    """Resident memory of this process in MiB, without garbage."""
    gc.collect()
    return psutil.Process().memory_info().rss / 2**20
