"""A small Algorithm, and what the tests that train it look at."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from rllib_gigpo.algorithms.gigpo.gigpo import GiGPOConfig
from rllib_gigpo.columns import GROUP_ID, MEMBER, RESPONSE_IDS, TASK
from rllib_gigpo.env_adapters import embedded_model_path, make_env


def small_config(config_class: type = GiGPOConfig, **training: Any) -> Any:
    """4 groups of 4 on EZPoints with the embedded model, in one process; `training` replaces training parameters."""
    return (
        config_class()
        .environment("EZPoints")
        .language_model(model_path=str(embedded_model_path("EZPoints")))
        .generation(max_prompt_tokens=160, max_response_tokens=32)
        .training(**{"group_size": 4, "groups_per_iteration": 4, "lr": 1e-3, "num_minibatches": 2, **training})
        .evaluation(evaluation_duration=8)
        .env_runners(num_env_runners=0)
        .learners(num_learners=0)
        .debugging(seed=0)
    )


def weights_of(algo: Any) -> dict[str, np.ndarray]:
    """The weights of the first learner, by name."""
    return algo.learner_group.get_weights()["default_policy"]


def largest_difference(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> float:
    """Largest absolute difference of two sets of float32 weights with the same names."""
    assert a.keys() == b.keys()
    return max(float(np.abs(a[name].astype(np.float64) - b[name].astype(np.float64)).max()) for name in a)


def record_samples(algo: Any) -> list:
    """Every training episode that `algo` samples from now on."""
    episodes: list = []
    sample = algo._sample
    algo._sample = lambda plan: episodes.extend(found := sample(plan)) or found
    return episodes


def tasks_of(episodes: list) -> list:
    """The task of each episode."""
    return [episode.get_infos(0)[TASK] for episode in episodes]


def tokens_of(episodes: list) -> dict[tuple[int, int], list[list[int]]]:
    """The sampled token ids of every step, by (group, member)."""
    return {
        (episode.get_infos(0)[GROUP_ID], episode.get_infos(0)[MEMBER]): [
            ids.tolist() for ids in episode.get_extra_model_outputs(RESPONSE_IDS)
        ]
        for episode in episodes
    }


class KillsItsProcess(gym.Wrapper):
    """EZPoints that kills its process, after a step or two, where the file `env_config["order"]` lies, and hangs where
    `env_config["hang"]` does; it takes the file away, so that this happens once."""

    def __init__(self, config: Any):
        super().__init__(make_env("EZPoints"))
        self.order = Path(config["order"])
        self.hang = Path(config.get("hang", config["order"] + "-hang"))
        self.steps = 0

    def step(self, action: str) -> Any:
        self.steps += 1
        if self.steps >= 3 and self.order.exists():
            self.order.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        if self.steps >= 3 and self.hang.exists():
            self.hang.unlink()
            time.sleep(600)
        return super().step(action)


def restorable_config() -> Any:
    """A run with everything that a checkpoint must hold: Adam's moments, a learning rate schedule, a task order."""
    return (
        small_config(lr=[[0, 1e-3], [300, 1e-4]]).environment(tasks=list(range(7))).generation(max_response_tokens=16)
    )
