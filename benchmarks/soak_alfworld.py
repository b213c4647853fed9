"""What is asked of ALFWorld beside what is asked of every environment."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
from alfworld_steps import compared_with_stock
from soak_episodes import play
from soak_experts import EXPERTS

from rllib_gigpo import registry
from rllib_gigpo.connectors.anchor_states import anchor_state_ids, step_group_diagnostics
from rllib_gigpo.env_adapters.alfworld.alfworld_env import ALFWorld
from rllib_gigpo.env_adapters.alfworld.generate import write_games
from rllib_gigpo.env_adapters.alfworld.task_types import SPLITS, TASK_TYPES
from rllib_gigpo.env_checks.check_result import CheckResult, failed, informed, passed
from rllib_gigpo.env_checks.player import Player
from rllib_gigpo.env_checks.recording import random_action, tasks_for
from rllib_gigpo.env_runners.environment_worker import CreatorContext
from rllib_gigpo.env_runners.worker_pool import WorkerLimits, WorkerPool

NUM_WORKERS, NUM_ENVS = 4, 8
LEAST_RATIO = 3.0
GROUPS, MEMBERS, MOST_STEPS = 12, 8, 30


def splits(*, games: int) -> list[CheckResult]:
    """Files in the public layout, of each type and split: does our adapter win them by their walkthroughs?"""
    results = []
    with tempfile.TemporaryDirectory() as folder:
        written = len(list(write_games(Path(folder), games=games, seed=0)))
        for split in SPLITS:
            player = Player(ALFWorld(data=folder, split=split, walkthrough=True))
            won: Counter[str] = Counter()
            for task in range(written // len(SPLITS)):
                start = player.reset(task, 0)
                is_won, _ = play(player, start, EXPERTS["ALFWorld"](player, task, start))
                won[start.values("task_type")[0]] += is_won
            player.env.close()
            seen = ", ".join(f"{task_type} {won[task_type]} of {games}" for task_type in TASK_TYPES)
            all_won = all(won[task_type] == games for task_type in TASK_TYPES)
            fix = "every game that is written must be won by its walkthrough"
            results.append(passed(split, seen) if all_won else failed(split, seen, fix))
    return results


def in_workers(*, episodes: int) -> list[CheckResult]:
    """Random episodes in environment workers, as with `env_workers=4`: none fails, no worker is lost or grows."""
    create = partial(registry.make_environment, "ALFWorld")
    pool = WorkerPool(
        create,
        CreatorContext({}, worker_index=0, num_workers=0),
        NUM_ENVS,
        num_workers=NUM_WORKERS,
        limits=WorkerLimits(step_timeout_s=300),
    )
    tasks = iter(tasks_for(0, episodes))
    failures: list[str] = []
    lengths: list[int] = []
    memory: list[list[float]] = []

    async def play_tasks() -> None:
        for task in tasks:
            env = await pool.acquire()
            rng = np.random.default_rng(task)
            try:
                _, info = await env.reset(seed=0, options={"task": task})
                length, ended = 0, False
                while not ended:
                    _, _, terminated, truncated, info = await env.step(random_action(info, rng))
                    length, ended = length + 1, terminated or truncated
            except Exception as error:  # what is looked for
                failures.append(f"task {task}: {type(error).__name__}: {error}")
                pool.discard(env)
                continue
            pool.release(env)
            lengths.append(length)
            if len(lengths) in (episodes // 2, episodes):
                memory.append([worker.process.rss_mb() for worker in pool._workers])

    async def play_all() -> None:
        await asyncio.gather(*(play_tasks() for _ in range(NUM_ENVS)))

    try:
        asyncio.run(play_all())
        restarts = dict(pool.take_counts())
    finally:
        pool.close()
    seen = (
        f"{len(lengths)} of {episodes} episodes played to their end, {sum(lengths):,} steps, restarts: {restarts or 0}"
    )
    if failures or restarts:
        return [failed("failures", f"{seen}; {failures[:3]}", "no episode may fail, and no worker may be lost")]
    half, full = (", ".join(f"{mb:.0f}" for mb in at) for at in memory)
    return [
        passed("failures", seen),
        informed("memory", f"MB of the workers: {half} after {episodes // 2} episodes, {full} after {episodes}"),
    ]


def beside_stock(*, games: int, steps: int) -> list[CheckResult]:
    """The same games, commands and texts with TextWorld as it comes, in turns, by CPU time."""
    found = compared_with_stock(games=games, steps=steps)
    count = games * len(TASK_TYPES)
    seen = f"{found.ratio('step'):.1f} times as fast: {found.mean_ms('ours', 'step'):.1f} instead of "
    seen += f"{found.mean_ms('stock', 'step'):.1f} CPU ms, {count} games of {steps} steps"
    starts = f"{found.ratio('start'):.1f} times as fast, of games played before: {found.mean_ms('ours', 'start'):.0f} "
    starts += f"instead of {found.mean_ms('stock', 'start'):.0f} CPU ms"
    fix = f"steps must be {LEAST_RATIO} times as fast"
    return [
        passed("texts and commands", "identical"),  # or there would be no comparison
        passed("steps", seen) if found.ratio("step") >= LEAST_RATIO else failed("steps", seen, fix),
        informed("starts", starts),
    ]


def anchor_states() -> list[CheckResult]:
    """Step groups of the same rollouts, by what was shown and by what is true in the game."""
    results = []
    for player_name, share_of_solution in (("random", 0.0), ("half of a solution", 0.5)):
        shown, in_game, groups = _rollout(share_of_solution)
        for name, states in (("shown", shown), ("game", in_game)):
            of_groups = step_group_diagnostics(anchor_state_ids(states, groups))
            large = of_groups["anchor_rows_share_10_49"] + of_groups["anchor_rows_share_50_plus"]
            seen = f"{len(states)} rows, {of_groups['anchor_group_size_mean']:.1f} per step group, "
            seen += f"{of_groups['anchor_singleton_share']:.1%} alone, {large:.0%} in groups of 10 or more"
            results.append(informed(f'{player_name}, "{name}"', seen))
    return results


def _rollout(share_of_solution: float) -> tuple[list[str], list[str], list[int]]:
    """Of every step what was shown, what is true in the game, and the rollout group.

    One command in ten is nonsense; else the next one of a solution with that probability, or a random one.
    """
    env = ALFWorld(anchor_state="game", walkthrough=True, max_steps=MOST_STEPS)
    shown, in_game, groups = [], [], []
    for group in range(GROUPS):
        for member in range(MEMBERS):
            rng = np.random.default_rng([group, member])
            observation, info = env.reset(options={"task": group})
            solution, ended = list(info["walkthrough"]), False
            while not ended:
                shown.append(observation)
                in_game.append(info["anchor_state"])
                groups.append(group)
                command = "nonsense" if rng.random() < 0.1 else random_action(info, rng)
                if solution and rng.random() < share_of_solution:
                    command = solution.pop(0)
                observation, _, terminated, truncated, info = env.step(command)
                ended = terminated or truncated
    env.close()
    return shown, in_game, groups
