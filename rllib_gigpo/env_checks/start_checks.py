"""Checks of how episodes start: equal seed and task, equal first observation, wherever it is."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from rllib_gigpo.env_checks.check_result import (
    CheckResult,
    described_error,
    failed,
    not_applicable,
    one_line,
    passed,
    warned,
)
from rllib_gigpo.env_checks.new_process import starts_in_new_process
from rllib_gigpo.env_checks.player import Player
from rllib_gigpo.env_checks.recording import Trajectory, choose_actions, close_quietly
from rllib_gigpo.seeds import derive_seed

Make = Callable[[], Player]

_GROUP_SIZE = 4
_FIX = (
    "the start must depend on seed and task alone: no state of earlier episodes or of other objects, no hash(), no set "
    "order, no time"
)


def check_one_object(make: Make, tasks: Sequence[int], seed: int) -> CheckResult:
    """A task starts the same again after an episode of another task that was left in the middle."""
    name = "determinism, one object"
    player = make()
    try:
        first = [_start_and_walk(player, task, seed) for task in tasks]
        again = [_start_and_walk(player, task, seed) for task in tasks]
    finally:
        close_quietly(player)
    return _compared(name, tasks, first, again, "a reset", "a later one")


def check_second_object(make: Make, tasks: Sequence[int], seed: int) -> CheckResult:
    """Two environment objects start a task the same."""
    starts = []
    for _ in range(2):
        player = make()
        try:
            starts.append([player.reset(task, seed).start() for task in tasks])
        finally:
            close_quietly(player)
    first, second = starts
    return _compared("determinism, two objects", tasks, first, second, "one object", "another")


def check_new_process(
    make: Make, name: str, env_config: Mapping[str, Any], tasks: Sequence[int], seed: int
) -> CheckResult:
    """A new Python process, whose hashes are salted differently, starts a task the same."""
    check = "determinism, new process"
    player = make()
    try:
        here = [player.reset(task, seed).start() for task in tasks]
    finally:
        close_quietly(player)
    try:
        there = starts_in_new_process(name, env_config, tasks, seed)
    except (RuntimeError, TypeError) as error:
        fix = "a worker of Ray must be able to import the environment, and env_config must be plain data"
        return failed(check, str(error), fix)
    return _compared(check, tasks, here, there, "this process", "a new one")


def check_group(make: Make, task: int, seed: int) -> CheckResult:
    """The members of a rollout group, alive together, start the same while others of them are under way."""
    players: list[Player] = []
    try:
        starts = []
        for _ in range(_GROUP_SIZE):
            players.append(make())
            starts.append(_start_and_walk(players[-1], task, seed))
        starts += [_start_and_walk(player, task, seed) for player in players]
    finally:
        for player in players:
            close_quietly(player)
    for start in starts[1:]:
        if start != starts[0]:
            return failed("group", f"task {task}: {_difference(starts[0], start, 'one member', 'another')}", _FIX)
    return passed("group", f"{_GROUP_SIZE} members start equal, twice")


def check_tasks_differ(trajectories: Sequence[Trajectory]) -> CheckResult:
    """Tasks do not all look the same."""
    starts: dict[int, tuple[str, str]] = {}
    for trajectory in trajectories:
        if trajectory.moments:
            first = trajectory.moments[0]
            starts[trajectory.task] = (first.start(), repr(first.values("task_description")))
    if len(starts) < 2:
        return not_applicable("tasks differ", "fewer than two tasks were played")
    different = len(set(starts.values()))
    if different == 1:
        fix = (
            'options["task"] must choose the instance; fine where tasks differ in what is hidden at first, or where '
            "there is one task only"
        )
        return warned("tasks differ", f"all {len(starts)} tasks start the same", fix)
    return passed("tasks differ", f"{different} different starts of {len(starts)} tasks")


def check_stepping_order(make: Make, task: int, seed: int, max_steps: int) -> CheckResult:
    """A step before the first reset is refused; what one after the end does is told."""
    name = "stepping order"
    player = make()
    try:
        early = _step_error(player, {"": ""} if not player.is_multi_agent else {})
        moment = player.reset(task, seed)
        rng = np.random.default_rng(derive_seed(seed, "stepping order"))
        for step in range(max_steps):
            if moment.ended:
                break
            actions = choose_actions("random", moment, step, rng)
            moment = player.step(actions)
        late = _step_error(player, actions) if moment.ended else "not tried"
    finally:
        close_quietly(player)
    after = f"a step after the end {'is refused' if late else 'is answered'}" if moment.ended else "no end was reached"
    if not early:
        fix = "raise an error there: nothing has been set up yet"
        return warned(name, f"a step before the first reset is answered; {after}", fix)
    return passed(name, f"a step before the first reset is refused; {after}")


def _start_and_walk(player: Player, task: int, seed: int) -> str:
    """How the task starts; up to 3 random steps follow."""
    moment = player.reset(task, seed)
    start = moment.start()
    rng = np.random.default_rng(derive_seed(seed, "walk", task))
    for step in range(3):
        if moment.ended:
            break
        moment = player.step(choose_actions("random", moment, step, rng))
    return start


def _step_error(player: Player, actions: Mapping[Any, str]) -> str:
    """What a step raises; "" where it does not."""
    try:
        player.step(actions)
    except Exception as error:  # an environment may refuse as it likes
        return described_error(error)
    return ""


def _compared(name: str, tasks: Sequence[int], a: list[str], b: list[str], of_a: str, of_b: str) -> CheckResult:
    for task, one, other in zip(tasks, a, b, strict=True):
        if one != other:
            return failed(name, f"task {task}, equal seed: {_difference(one, other, of_a, of_b)}", _FIX)
    return passed(name, f"{len(tasks)} tasks start equal in {of_a} and {of_b}")


def _difference(a: str, b: str, of_a: str, of_b: str) -> str:
    """Where two starts differ, with what is around it."""
    match = difflib.SequenceMatcher(None, a[:2000], b[:2000], autojunk=False).find_longest_match()
    at = 0 if match.a or match.b else match.size
    window = slice(max(0, at - 20), at + 40)
    return f"{of_a} shows {one_line(repr(a[window]))}, {of_b} {one_line(repr(b[window]))}"
