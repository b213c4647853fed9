"""What every environment is tested for: Gymnasium's checks, and that its start is the same everywhere."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils.env_checker import check_env

from rllib_gigpo.env_checks import Status, check_contract
from rllib_gigpo.env_checks.check_result import CheckResult

ROOT = Path(__file__).parents[1]

# Name and options of the environments that generate their instances.
GENERATED = {
    "Blackjack": ("Blackjack", {}),
    "Blackjack image": ("Blackjack", {"observation": "image", "reward_scheme": "verl-agent", "natural": True}),
    "EZPoints": ("EZPoints", {}),
    "EZPoints image": ("EZPoints", {"observation": "image", "reward_scheme": "rl4vlm"}),
    "Household": ("Household", {}),
    "NumberLine": ("NumberLine", {}),
    "NumberLine image": ("NumberLine", {"observation": "image", "image_size": 64}),
    "Points24": ("Points24", {}),
    "Points24 image": ("Points24", {"observation": "image", "solvable_only": True}),
    "Sokoban": ("Sokoban", {"num_boxes": 2}),
    "Sokoban image": ("Sokoban", {"num_boxes": 2, "observation": "image", "cell_pixels": 28}),
}


def passes_gymnasiums_checker(env: gym.Env) -> None:
    """Fails where Gymnasium's checker finds, or warns of, anything."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Pictures of a dict observation are uint8 and full range by construction; a text has no bounds to look at.
        check_env(env, skip_render_check=True)


def fingerprint(env: gym.Env, tasks: Iterable[Any], seeds: Iterable[int]) -> str:
    """A digest of the first observations and infos of `tasks`, then of `seeds`, and of what a few steps answer."""
    digest = hashlib.blake2b(digest_size=16)
    for start in [{"options": {"task": task}} for task in tasks] + [{"seed": seed} for seed in seeds]:
        observation, info = env.reset(**start)
        digest.update(_bytes((observation, info)))
        for action in info["admissible_actions"][:3]:
            *answer, info = env.step(action)
            digest.update(_bytes((answer, info)))
            if answer[2] or answer[3]:
                break
    return digest.hexdigest()


def fingerprints_in_other_processes(expression: str, imports: str) -> set[str]:
    """What `expression`, a str, is in two new processes whose hashes are salted differently."""
    return {
        subprocess.run(
            [sys.executable, "-c", f"{imports}\nprint({expression})"],
            env={
                "PYTHONHASHSEED": salt,
                "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
                "OMP_NUM_THREADS": "1",
            },
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for salt in ("1", "2")
    }


def checked(name: str, **options: Any) -> list[CheckResult]:
    """What `check_contract` finds about an environment of `tests.broken_environments`."""
    few = {"episodes": 18, "max_steps": 100, "new_process": False}
    return check_contract(f"tests.broken_environments.{name}", **{**few, **options})


def with_status(results: Iterable[CheckResult], *statuses: Status) -> dict[str, str]:
    """What was seen, by the name of the check, where the check ended so."""
    return {result.name: result.seen for result in results if result.status in statuses}


def wins(env: gym.Env, tasks: Sequence[int], choose: Callable[[dict[str, Any]], str]) -> float:
    """The share of `tasks` that is won by an actor that chooses its actions by the last info."""
    won = 0
    for task in tasks:
        _, info = env.reset(options={"task": task})
        ended = False
        while not ended:
            _, _, terminated, truncated, info = env.step(choose(info))
            ended = terminated or truncated
        won += info["won"]
    return won / len(tasks)


def at_random(seed: int) -> Callable[[dict[str, Any]], str]:
    """Chooses uniformly among the admissible actions."""
    rng = np.random.default_rng(seed)
    return lambda info: info["admissible_actions"][rng.integers(len(info["admissible_actions"]))]


def _bytes(value: Any) -> bytes:
    if isinstance(value, np.ndarray):
        return value.tobytes()
    if isinstance(value, dict):
        return b"".join(_bytes(part) for pair in sorted(value.items()) for part in pair)
    if isinstance(value, tuple | list):
        return b"".join(map(_bytes, value))
    return ascii(value).encode()
