"""An expert at EZPoints, and what its demonstrations are dealt."""

from __future__ import annotations

from functools import cache

from rllib_gigpo.env_adapters.gym_cards.arithmetic import evaluate
from rllib_gigpo.env_adapters.gym_cards.ezpoints import END, MAX_FORMULA_PARTS
from rllib_gigpo.env_adapters.gym_cards.hands import TARGET, hand_of_task


def expert_actions(numbers: tuple[int, ...], formula: tuple[str, ...]) -> list[str]:
    """The actions that win soonest from a formula; only "=" where nothing wins any more."""
    shortest, actions = _shortest_win(numbers, formula)
    return actions if shortest is not None else [END]


@cache
def _shortest_win(numbers: tuple[int, ...], formula: tuple[str, ...]) -> tuple[int | None, list[str]]:
    """The least number of actions to a win, None if there is no win, and the actions that begin such a way."""
    if len(formula) > MAX_FORMULA_PARTS:
        return None, []
    unused = unused_numbers(numbers, formula)
    if not unused and evaluate("".join(formula)) == TARGET:
        return 1, [END]
    ways = {part: _shortest_win(numbers, (*formula, part))[0] for part in (*unused, "+", "*")}
    lengths = [length for length in ways.values() if length is not None]
    if not lengths:
        return None, []
    return min(lengths) + 1, [part for part, length in ways.items() if length == min(lengths)]


@cache
def tasks_by_numbers() -> list[list[int]]:
    """For each of the 13 pairs of numbers some tasks that deal it.

    Demonstrations take all pairs equally often. Dealt as the game deals them, five of six would want a sum, and a model
    that has seen few products starts out with so little tendency to multiply that no group of rollouts finds it.
    """
    tasks: dict[tuple[int, ...], list[int]] = {}
    for task in range(1000):
        tasks.setdefault(hand_of_task(task).numbers, []).append(task)
    return [tasks[numbers] for numbers in sorted(tasks)]


def unused_numbers(numbers: tuple[int, ...], formula: tuple[str, ...]) -> list[str]:
    """The numbers of the hand that a formula does not hold yet, in the hand's order."""
    unused = [str(number) for number in numbers]
    for part in formula:
        if part in unused:
            unused.remove(part)
    return unused
