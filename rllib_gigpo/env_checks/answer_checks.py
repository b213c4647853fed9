"""Checks of what an environment answered while it was played: infos, rewards, actions, endings."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from numbers import Real
from typing import Any

import numpy as np

from rllib_gigpo.columns import ADMISSIBLE_ACTIONS, ANCHOR_STATE, IS_ACTION_VALID, TASK_ID, WON
from rllib_gigpo.env_checks.check_result import (
    CheckResult,
    Status,
    failed,
    informed,
    not_applicable,
    one_line,
    passed,
    warned,
)
from rllib_gigpo.env_checks.player import Moment, agent_prefix
from rllib_gigpo.env_checks.recording import Trajectory

Trajectories = Sequence[Trajectory]


def check_answers(trajectories: Trajectories) -> CheckResult:
    """`reset(seed=, options={"task": …})` and `step` with good actions answer as the API says, and do not raise."""
    for trajectory in trajectories:
        if trajectory.error and (trajectory.policy == "random" or trajectory.failed_at_reset):
            if trajectory.failed_at_reset and trajectory.after_end:
                continue  # `check_reset_after_end`
            return failed("answers", trajectory.error, 'reset(seed=…, options={"task": an integer}) and step must work')
    steps = sum(len(trajectory.actions) for trajectory in trajectories)
    return passed("answers", f"{len(trajectories)} episodes, {steps} steps")


def check_reset_after_end(trajectories: Trajectories) -> CheckResult:
    """An environment that has ended an episode starts another one, which does not end at once."""
    again = [trajectory for trajectory in trajectories if trajectory.after_end]
    for trajectory in again:
        if trajectory.failed_at_reset:
            return failed("reset after the end", trajectory.error, "reset() must start over after an episode's end")
    if not again:
        return not_applicable("reset after the end", "no episode was played to its end")
    return passed("reset after the end", f"{len(again)} episodes on an environment that had played before")


def check_infos(trajectories: Trajectories) -> CheckResult:
    """`won` is a bool and there at the end; `task_id` is there at the start, and equal for equal tasks."""
    ids: dict[int, Any] = {}
    lacks_id = False
    for trajectory, moment in _moments(trajectories):
        for won in moment.values(WON):
            if not isinstance(won, bool | np.bool_):
                return failed("infos", f"{WON}={won!r} ({trajectory})", f"info[{WON!r}] must be a bool")
        if moment.ended and not moment.values(WON):
            return failed("infos", f"no {WON!r} in the last info ({trajectory})", f"put {WON!r}, a bool, into infos")
        if moment is trajectory.moments[0]:
            found = moment.values(TASK_ID)
            lacks_id |= not found
            for task_id in found:
                if not isinstance(task_id, str | int | np.integer):
                    return failed("infos", f"{TASK_ID}={one_line(repr(task_id), 60)}", f"{TASK_ID} is a text or number")
                if ids.setdefault(trajectory.task, task_id) != task_id:
                    seen = f"task {trajectory.task} has the {TASK_ID}s {ids[trajectory.task]!r} and {task_id!r}"
                    return failed("infos", seen, "a task has one name")
    if lacks_id:
        return warned("infos", f"no {TASK_ID!r} at reset", f"put {TASK_ID!r}, the task's name, into the infos")
    return passed("infos", f"{WON!r} is a bool, {TASK_ID!r} is there")


def check_anchor_states(trajectories: Trajectories) -> CheckResult:
    """`anchor_state`, where an environment gives it, is given before each action, as a text or an array."""
    with_state = without = 0
    for trajectory, moment in _moments(trajectories):
        for state in moment.values(ANCHOR_STATE):
            if not isinstance(state, str) and not (isinstance(state, np.ndarray) and not state.dtype.hasobject):
                seen = f"{ANCHOR_STATE} is a {type(state).__name__} ({trajectory})"
                return failed("anchor state", seen, "it must be a str or an array of numbers, to be looked up by")
        if not moment.ended:
            found = sum(ANCHOR_STATE in moment.infos.get(agent, {}) for agent in moment.observations)
            with_state, without = with_state + found, without + len(moment.observations) - found
    if not with_state:
        return not_applicable("anchor state", "the environment gives none: what it shows is the anchor state")
    if without:
        seen = f"{without} of {with_state + without} infos lack {ANCHOR_STATE!r}"
        return failed("anchor state", seen, "give it at reset and at every step, or never")
    return passed("anchor state", f"in all {with_state} infos")


def check_invalid_actions(trajectories: Trajectories) -> CheckResult:
    """ "" and nonsense are answered like any other action: nothing is raised, and the step counts."""
    name = "invalid actions"
    invalid = [trajectory for trajectory in trajectories if trajectory.policy != "random"]
    if check_answers(trajectories).status == Status.FAIL:
        return not_applicable(name, "needs 'answers' to pass")
    for trajectory in invalid:
        if trajectory.error and not trajectory.failed_at_reset:
            return failed(name, trajectory.error, "an action that cannot be carried out must do nothing, not raise")
        for before, actions, after in _steps(trajectory):
            for agent, action in actions.items():
                admissible = before.infos.get(agent, {}).get(ADMISSIBLE_ACTIONS)
                called_valid = after.infos.get(agent, {}).get(IS_ACTION_VALID, False)
                if admissible and action.strip() not in admissible and called_valid:
                    seen = f"{IS_ACTION_VALID}=True for {action!r}, which is not among the {ADMISSIBLE_ACTIONS}"
                    return failed(name, agent_prefix(agent) + one_line(seen), "say False, or list the action")
    cut = next((trajectory for trajectory in invalid if trajectory.is_cut), None)
    if cut is not None and not any(trajectory.is_cut for trajectory in trajectories if trajectory.policy == "random"):
        seen = f"an episode of {cut.policy} actions has no end after {len(cut.actions)} steps"
        return failed(name, seen, "an invalid action must count as a step towards a step limit")
    return passed(name, f"{sum(len(trajectory.actions) for trajectory in invalid)} steps with '' and nonsense")


def check_admissible_actions(trajectories: Trajectories) -> CheckResult:
    """The admissible actions are a list of texts, and each that was tried is valid."""
    name = "admissible actions"
    tried = 0
    for trajectory, moment in _moments(trajectories):
        for actions in moment.values(ADMISSIBLE_ACTIONS):
            if not isinstance(actions, list | tuple) or not all(isinstance(action, str) for action in actions):
                return failed(name, f"{one_line(repr(actions), 80)} ({trajectory})", "they must be a list of str")
    for trajectory in trajectories:
        for before, actions, after in _steps(trajectory):
            for agent, action in actions.items():
                if action not in (before.infos.get(agent, {}).get(ADMISSIBLE_ACTIONS) or ()):
                    continue
                tried += 1
                if not after.infos.get(agent, {}).get(IS_ACTION_VALID, True):
                    seen = f"{agent_prefix(agent)}{one_line(repr(action), 60)} was admissible, then invalid"
                    return failed(name, f"{seen} ({trajectory})", f"list only what sets {IS_ACTION_VALID} to True")
    if not tried:
        return not_applicable(name, f"no info has {ADMISSIBLE_ACTIONS!r}")
    return passed(name, f"{tried} tried, all valid")


def check_rewards(trajectories: Trajectories) -> CheckResult:
    """Rewards are finite numbers."""
    found: list[float] = []
    for trajectory, moment in _moments(trajectories):
        for reward in moment.rewards.values():
            is_number = isinstance(reward, Real | np.floating | np.integer) and not isinstance(reward, bool | np.bool_)
            if not is_number or not math.isfinite(reward):
                seen = f"reward {reward!r} of type {type(reward).__name__} ({trajectory})"
                return failed("rewards", seen, "a reward must be a finite float")
            found.append(float(reward))
    if not found:
        return not_applicable("rewards", "no step gave one")
    return passed("rewards", f"{len(found)}, from {min(found):g} to {max(found):g}")


def check_endings(trajectories: Trajectories) -> CheckResult:
    """Every episode of random actions ends."""
    played = [trajectory for trajectory in trajectories if trajectory.policy == "random" and not trajectory.error]
    for trajectory in played:
        if trajectory.is_cut:
            seen = f"no end after {len(trajectory.actions)} steps ({trajectory})"
            return failed("endings", seen, "truncate after a number of steps, or raise --max-steps")
    if not played:
        return not_applicable("endings", "no episode was played to its end")
    longest = max(len(trajectory.actions) for trajectory in played)
    won = sum(any(trajectory.last.values(WON)) for trajectory in played)
    return passed("endings", f"all {len(played)} random episodes ended, {won} won, after {longest} steps at most")


def check_truncation(trajectories: Trajectories) -> CheckResult:
    """A step limit comes as `truncated`.

    Episodes of "" that all end unwon after the same number of steps, which random episodes reach and never pass, have
    met a step limit; unless the environment tells no admissible actions: then random words may be as invalid as "", and
    a game that ends for that is only lost.
    """
    whole = [trajectory for trajectory in trajectories if not trajectory.error and trajectory.last.ended]
    empty = [trajectory for trajectory in whole if trajectory.policy == "empty"]
    truncated = [trajectory for trajectory in whole if trajectory.last.truncated]
    if truncated:
        lengths = sorted({len(trajectory.actions) for trajectory in truncated})
        return passed("truncation", f"{len(truncated)} of {len(whole)} episodes truncated, after {lengths} steps")
    lengths = sorted({len(trajectory.actions) for trajectory in empty})
    longest = max((len(trajectory.actions) for trajectory in whole if trajectory.policy == "random"), default=0)
    unwon = not any(any(trajectory.last.values(WON)) for trajectory in empty)
    can_play = any(moment.values(ADMISSIBLE_ACTIONS) for trajectory in whole for moment in trajectory.moments)
    if can_play and len(empty) > 1 and len(lengths) == 1 and unwon and longest == lengths[0]:
        seen = f"episodes that do nothing are terminated after {longest} steps, and none is longer"
        return failed("truncation", seen, "a step limit must set truncated=True and terminated=False")
    return not_applicable("truncation", f"no step limit was met in {len(whole)} episodes")


def check_global_random_state(trajectories: Trajectories) -> CheckResult:
    """`reset` and `step` leave the global generators of `random` and `numpy.random` alone."""
    changed = sorted({name for trajectory in trajectories for name in trajectory.global_state})
    if changed:
        seen = f"reset or step changed the global state of {' and '.join(changed)}"
        return failed("global random state", seen, "draw from self.np_random after super().reset(seed=seed)")
    return passed("global random state", "unchanged")


def measure_speed(trajectories: Trajectories) -> CheckResult:
    """Steps per second, resets included."""
    played = [trajectory for trajectory in trajectories if not trajectory.error]
    seconds = sum(trajectory.seconds for trajectory in played)
    steps = sum(len(trajectory.actions) for trajectory in played)
    if not steps:
        return not_applicable("speed", "no episode was played to its end")
    return informed("speed", f"{steps / seconds:,.0f} steps per second, {len(played)} resets included")


def _moments(trajectories: Trajectories) -> Iterator[tuple[Trajectory, Moment]]:
    for trajectory in trajectories:
        for moment in trajectory.moments:
            yield trajectory, moment


def _steps(trajectory: Trajectory) -> Iterator[tuple[Moment, dict[Any, str], Moment]]:
    """What was shown, what was done, and the answer, of each step that was answered."""
    yield from zip(trajectory.moments, trajectory.actions, trajectory.moments[1:], strict=False)
