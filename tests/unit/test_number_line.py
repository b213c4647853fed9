"""The rules of NumberLine."""

from __future__ import annotations

import pytest

from rllib_gigpo.env_adapters.gym_cards.number_line import NumberLine
from tests.environment_cases import at_random, wins

pytestmark = pytest.mark.unit


def started(target: int, current: int, **options) -> NumberLine:
    """An environment at the first task with these two numbers."""
    env = NumberLine(**options)
    for task in range(1000):
        _, info = env.reset(options={"task": task})
        if (info["Target"], info["Current"]) == (target, current):
            return env
    raise AssertionError("no such task")


def expert(info: dict) -> str:
    return "+" if info["Current"] < info["Target"] else "-"


def test_a_step_closer_is_worth_0_and_the_target_1() -> None:
    env = started(target=4, current=2)
    assert env.step("+")[:4] == ("Target: 4. Current: 3", 0.0, False, False)
    *answer, info = env.step("+")
    assert answer == ["Target: 4. Current: 4", 1.0, True, False] and info["won"]


@pytest.mark.parametrize(
    ("action", "valid", "shown"), [("-", True, 1), ("", False, 2), ("up", False, 2), ("--", False, 2), ("+1", False, 2)]
)
def test_any_other_step_costs_1(action: str, valid: bool, shown: int) -> None:
    observation, reward, terminated, _, info = started(target=4, current=2).step(action)
    assert (observation, reward, terminated) == (f"Target: 4. Current: {shown}", -1.0, False)
    assert info["is_action_valid"] is valid


def test_the_line_ends_on_both_sides() -> None:
    for current, action in ((0, "-"), (5, "+")):
        observation, reward, *_, info = started(target=3, current=current).step(action)
        assert (observation, reward) == (f"Target: 3. Current: {current}", -1.0)
        assert info["is_action_valid"], "a bad choice, but a legal one"


def test_twice_the_highest_number_is_the_step_limit() -> None:
    env = started(target=3, current=0, max_position=3)
    assert [env.step("-")[3] for _ in range(6)] == [False] * 5 + [True]


def test_infos() -> None:
    env = NumberLine()
    observation, info = env.reset(options={"task": 7})
    assert observation == f"Target: {info['Target']}. Current: {info['Current']}"
    assert info == {
        "won": False,
        "task_id": "numberline/7",
        "task_type": "numberline",
        "admissible_actions": ["-", "+"],
        "Target": info["Target"],
        "Current": info["Current"],
    }


def test_all_starts_are_as_frequent_and_none_is_at_the_target() -> None:
    env, starts = NumberLine(), []
    for task in range(3000):
        _, info = env.reset(options={"task": task})
        starts.append((info["Target"], info["Current"]))
    assert len(set(starts)) == 30 and all(target != current for target, current in starts)
    # 5 standard deviations of a share of 1/30 are 0.016 for 3000 tasks.
    for start in set(starts):
        assert starts.count(start) / 3000 == pytest.approx(1 / 30, abs=0.017)


def test_the_expert_wins_every_task_and_chance_most() -> None:
    env = NumberLine()
    assert wins(env, range(300), expert) == 1.0
    assert 0.5 < wins(env, range(300), at_random(0)) < 0.9


@pytest.mark.parametrize("value", [0, 5.0, 1000])
def test_wrong_options_are_refused(value: object) -> None:
    with pytest.raises(ValueError, match=f"max_position is {value!r}"):
        NumberLine(max_position=value)
