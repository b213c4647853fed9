"""Environments for the tests of environment workers; this module imports neither Ray nor torch."""

from __future__ import annotations

import os
import signal
import string
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym
from gymnasium import spaces


class Trouble(gym.Env):
    """Counts its steps, and ends as won after `steps` of them, or as lost with the action `ends_on`.

    Its steps take up to `delay_s`, one longer than the other. It writes a file with its process id into the folder
    `env_config["folder"]`. Where a file with the name of a trouble lies there, the next environment that makes its
    second step takes the file away and gets into that trouble: "kill", "raise", "exit" or "hang"; "construct" and
    "reset" raise there.
    """

    def __init__(self, config: Mapping[str, Any]):
        self.observation_space = self.action_space = spaces.Text(1000, min_length=0, charset=string.printable)
        self.folder, self.steps = Path(config["folder"]), config.get("steps", 3)
        self.delay_s, self.ends_on = config.get("delay_s", 0.0), config.get("ends_on")
        self.ballast = bytearray(config.get("ballast_mb", 0) * 2**20)
        self.child: subprocess.Popen[bytes] | None = None
        if self._take("construct"):
            raise ConnectionError("no such game")
        (self.folder / f"{os.getpid()}.pid").touch()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.t, self.task = 0, (options or {})["task"]
        if self._take("reset"):
            raise ConnectionError("no such task")
        return f"Numbers: {self.task} 2. Formula: empty", {"pid": os.getpid()}

    def step(self, action: str) -> Any:
        self.t += 1
        time.sleep(self.delay_s * ((os.getpid() + self.t * self.task) % 3) / 2)
        if self.t == 2:
            self._get_into_trouble()
        won = self.t >= self.steps
        terminated = won or action == self.ends_on
        observation = f"Numbers: {self.task} 2. Formula: {self.t} +"
        return observation, float(len(action) % 3), terminated, False, {"won": won, "pid": os.getpid()}

    def _get_into_trouble(self) -> None:
        if self._take("kill"):
            os.kill(os.getpid(), signal.SIGKILL)
        if self._take("exit"):
            sys.exit(3)
        if self._take("raise"):
            raise ZeroDivisionError("one by nothing")
        if self._take("hang"):
            self.child = subprocess.Popen(["sleep", "600"])
            (self.folder / f"{self.child.pid}.pid").touch()
            time.sleep(600)

    def _take(self, trouble: str) -> bool:
        try:
            (self.folder / trouble).unlink()
        except FileNotFoundError:
            return False
        return True


def heavy_modules(config: Mapping[str, Any]) -> gym.Env:
    """An environment whose class of observations names what its process has imported of Ray, torch and transformers."""
    found = [name for name in ("ray", "torch", "transformers") if name in sys.modules]
    env = Trouble(config)
    env.observation_space = spaces.Text(1 + len(found))
    return env


def processes(folder: Path) -> list[int]:
    """Process ids that environments have left in `folder`."""
    return sorted(int(path.stem) for path in folder.glob("*.pid"))


def running(pids: list[int]) -> list[int]:
    """Those of `pids` that run, zombies excepted."""
    found = []
    for pid in pids:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            continue
        if state != "Z":
            found.append(pid)
    return found


def all_end(pids: list[int], within_s: float = 20.0) -> bool:
    """Whether all of `pids` end in time."""
    deadline = time.monotonic() + within_s
    while running(pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not running(pids)


def all_there(folder: Path, number: int, within_s: float) -> bool:
    """Whether environments leave `number` process ids in `folder` in time."""
    deadline = time.monotonic() + within_s
    while len(processes(folder)) < number and time.monotonic() < deadline:
        time.sleep(0.05)
    return len(processes(folder)) == number
