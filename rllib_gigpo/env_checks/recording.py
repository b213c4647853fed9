"""Plays an environment and keeps everything it answered, for the checks to look at."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from rllib_gigpo.columns import ADMISSIBLE_ACTIONS
from rllib_gigpo.env_checks.check_result import described_error
from rllib_gigpo.env_checks.player import Moment, Player
from rllib_gigpo.seeds import derive_seed

# As task streams have it: training tasks lie below, those of the evaluation panel count up from here.
FIRST_EVALUATION_TASK = 2**31

NONSENSE = ("xyzzy 42", "<action>{{ 7 * 7 }}</action>", "naïve 你好 🎈", "a" * 300, "line\nbreak", " ")

Policy = Literal["random", "empty", "nonsense"]


@dataclass
class Trajectory:
    """An episode that was played.

    Attributes:
        policy: How actions were chosen: "random" among the admissible ones, "empty" is always "".
        task: Given to `reset`.
        moments: The answer of `reset`, then those of `step`.
        actions: By agent, one dict for each step that was tried.
        after_end: Whether the environment object had played an episode to its end before.
        error: What was raised, and where; "" where nothing was.
        is_cut: Whether it was given up after the most steps that an episode may take.
        global_state: Names of the global generators whose state the episode changed.
        seconds: That `reset` and all steps took.
    """

    policy: Policy
    task: int
    moments: list[Moment] = field(default_factory=list)
    actions: list[dict[Any, str]] = field(default_factory=list)
    after_end: bool = False
    error: str = ""
    is_cut: bool = False
    global_state: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def failed_at_reset(self) -> bool:
        return bool(self.error) and not self.moments

    @property
    def last(self) -> Moment:
        return self.moments[-1]

    def __str__(self) -> str:
        return f"task {self.task}, {self.policy} actions, step {len(self.actions)}"


def tasks_for(seed: int, count: int) -> list[int]:
    """`count` distinct tasks: one of the evaluation panel, and otherwise training tasks."""
    training = [derive_seed(seed, "doctor", index) % FIRST_EVALUATION_TASK for index in range(count - 1)]
    return [*training, FIRST_EVALUATION_TASK][:count] if count > 1 else training or [FIRST_EVALUATION_TASK]


def record(make: Callable[[], Player], tasks: Sequence[int], *, seed: int, max_steps: int) -> list[Trajectory]:
    """Plays each task at random, and the first of them also with "" and with nonsense, on one environment object.

    An environment that raised is replaced by a new one.

    Args:
        make: Makes a new environment.
        tasks: One at least.
        seed: Of the resets and of the random actions.
        max_steps: Episodes are given up after so many steps.
    """
    plan: list[tuple[Policy, int]] = [("random", task) for task in tasks]
    plan += [(policy, task) for policy in ("empty", "nonsense") for task in tasks[:3]]
    trajectories: list[Trajectory] = []
    player: Player | None = None
    after_end = False
    for policy, task in plan:
        if player is None:
            try:
                player, after_end = make(), False
            except Exception as error:  # an environment may raise anything
                trajectories.append(Trajectory(policy, task, error=f"making another one: {described_error(error)}"))
                break
        trajectory = play(player, policy, task, seed=seed, max_steps=max_steps)
        trajectory.after_end = after_end
        trajectories.append(trajectory)
        after_end = True
        if trajectory.error:
            close_quietly(player)
            player = None
    if player is not None:
        close_quietly(player)
    return trajectories


def play(player: Player, policy: Policy, task: int, *, seed: int, max_steps: int) -> Trajectory:
    """One episode; what the environment raises is kept as the trajectory's `error`."""
    trajectory = Trajectory(policy, task)
    rng = np.random.default_rng(derive_seed(seed, "actions", policy, task))
    before = _global_states()
    began = time.perf_counter()
    try:
        trajectory.moments.append(player.reset(task, seed))
        while not trajectory.last.ended and len(trajectory.actions) < max_steps:
            trajectory.actions.append(choose_actions(policy, trajectory.last, len(trajectory.actions), rng))
            trajectory.moments.append(player.step(trajectory.actions[-1]))
    # An environment raises whatever it raises: that is what is looked for.
    except Exception as error:
        method = "step" if trajectory.moments else "reset"
        action = f"({_shown_action(trajectory.actions[-1])})" if trajectory.moments else f"(task {task})"
        trajectory.error = f"{method}{action}: {described_error(error)}"
    trajectory.seconds = time.perf_counter() - began
    trajectory.is_cut = not trajectory.error and not trajectory.last.ended
    after = _global_states()
    trajectory.global_state = tuple(name for name in before if before[name] != after[name])
    return trajectory


def choose_actions(policy: Policy, moment: Moment, step: int, rng: np.random.Generator) -> dict[Any, str]:
    """An action of each agent that acts next."""
    if policy == "empty":
        return dict.fromkeys(moment.observations, "")
    if policy == "nonsense":
        return dict.fromkeys(moment.observations, NONSENSE[step % len(NONSENSE)])
    return {agent: random_action(moment.infos.get(agent, {}), rng) for agent in moment.observations}


def random_action(info: Mapping[str, Any], rng: np.random.Generator) -> str:
    """One of the admissible actions where they are known, or a random word."""
    admissible = info.get(ADMISSIBLE_ACTIONS)
    if isinstance(admissible, list | tuple) and admissible:
        return admissible[int(rng.integers(len(admissible)))]
    letters = rng.integers(ord("a"), ord("z") + 1, size=int(rng.integers(1, 8)))
    return "".join(map(chr, letters))


def close_quietly(player: Player) -> None:
    """Closes an environment whose `close` is not what is looked at."""
    with suppress(Exception):  # the check of `close` reports it
        player.env.close()


def _global_states() -> dict[str, Any]:
    numpy_state = np.random.get_state(legacy=False)
    return {
        "random": random.getstate(),
        "numpy.random": (numpy_state["state"]["key"].tobytes(), numpy_state["state"]["pos"]),
    }


def _shown_action(actions: Mapping[Any, str]) -> str:
    values = list(actions.values())
    shown = repr(values[0] if len(values) == 1 else dict(actions))
    return shown if len(shown) <= 60 else f"{shown[:59]}…"
