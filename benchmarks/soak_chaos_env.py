"""The environment of the chaos run. Its worker processes import this, and start sooner without Ray and torch."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import gymnasium as gym

from rllib_gigpo.env_adapters import make_env

RAISE, HANG, KILL_WORKER, KILL_RUNNER = "raise", "hang", "kill_worker", "kill_runner"


class ObeysOrders(gym.Wrapper):
    """EZPoints that, in its second step, takes a file with the name of a fault away from the folder
    `env_config["orders"]`, where there is one, and gets into that fault."""

    def __init__(self, config: Any):
        super().__init__(make_env("EZPoints"))
        self.orders = Path(config["orders"])
        self.steps = 0

    def reset(self, **kwargs: Any) -> Any:
        self.steps = 0
        return super().reset(**kwargs)

    def step(self, action: Any) -> Any:
        self.steps += 1
        if self.steps == 2:
            self._obey()
        return super().step(action)

    def _obey(self) -> None:
        if self._take(KILL_WORKER):
            os.kill(os.getpid(), signal.SIGKILL)
        if self._take(KILL_RUNNER):
            os.kill(os.getppid(), signal.SIGKILL)
        if self._take(HANG):
            time.sleep(600)
        if self._take(RAISE):
            raise ZeroDivisionError("one by nothing")

    def _take(self, order: str) -> bool:
        try:
            (self.orders / order).unlink()
        except FileNotFoundError:
            return False
        return True
