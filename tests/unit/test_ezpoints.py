"""The rules of EZPoints, its contract as an environment, and its hands."""

from __future__ import annotations

import pytest

from rllib_gigpo.env_adapters.gym_cards.ezpoints import ACTIONS, EZPoints
from rllib_gigpo.env_adapters.gym_cards.ezpoints_expert import expert_actions
from rllib_gigpo.env_adapters.gym_cards.hands import RANKS, hand_of_task

pytestmark = pytest.mark.unit


def task_with(*numbers: int) -> int:
    """The first task whose hand shows these numbers, in this order."""
    return next(task for task in range(10_000) if hand_of_task(task).numbers == numbers)


def play(env: EZPoints, numbers: tuple[int, int], actions: list[str]) -> list[tuple]:
    """Deals a hand, takes the actions, and returns what each step answered."""
    env.reset(options={"task": task_with(*numbers)})
    return [env.step(action) for action in actions]


@pytest.mark.parametrize(
    ("numbers", "actions"),
    [
        ((10, 2), ["10", "+", "2", "="]),
        ((10, 2), ["2", "+", "10", "="]),
        ((10, 2), ["+", "10", "+", "2", "="]),
        ((2, 6), ["2", "*", "6", "="]),
        ((6, 6), ["6", "+", "6", "="]),
        ((3, 4), ["", "3", "*", "4", "="]),
    ],
)
@pytest.mark.parametrize("scheme", ["verl-agent", "rl4vlm"])
def test_a_formula_of_both_numbers_that_makes_12_wins(numbers: tuple, actions: list[str], scheme: str) -> None:
    *before, (_, reward, terminated, truncated, info) = play(EZPoints(reward_scheme=scheme), numbers, actions)
    assert (reward, terminated, truncated, info["won"]) == (10.0, True, False, True)
    assert not any(step[2] or step[3] or step[4]["won"] for step in before)


@pytest.mark.parametrize(
    ("numbers", "actions"),
    [
        ((10, 2), ["="]),
        ((10, 2), ["10", "="]),
        ((10, 2), ["10", "*", "2", "="]),
        ((10, 2), ["10", "2", "="]),  # reads 102
        ((10, 2), ["10", "+", "2", "+", "="]),
        ((2, 10), ["2", "+", "+", "="]),
    ],
)
def test_any_other_end_loses(numbers: tuple, actions: list[str]) -> None:
    for scheme, lost in (("verl-agent", 0.0), ("rl4vlm", -1.0)):
        _, reward, terminated, truncated, info = play(EZPoints(reward_scheme=scheme), numbers, actions)[-1]
        assert (reward, terminated, truncated, info["won"]) == (lost, True, False, False)
        assert info["is_action_valid"]  # a bad choice, but a legal one


@pytest.mark.parametrize("action", ["", "3", "12", "go", "-", "10 ", "+2", "\0", "ω" * 1000])
def test_what_is_no_legal_action_is_a_no_op_that_costs_a_step(action: str) -> None:
    observation, reward, terminated, truncated, info = play(EZPoints(max_steps=2), (10, 2), [action])[0]
    assert observation == "Numbers: 10 2. Formula: empty"
    assert (reward, terminated, truncated, info["is_action_valid"]) == (0.0, False, False, False)
    assert play(EZPoints(max_steps=2), (10, 2), [action, action])[-1][3], "the no-op did not count as a step"


def test_a_number_is_used_once() -> None:
    steps = play(EZPoints(), (6, 6), ["6", "6", "6"])
    assert [step[4]["is_action_valid"] for step in steps] == [True, True, False]
    assert steps[-1][0] == "Numbers: 6 6. Formula: 6 6"
    assert not play(EZPoints(), (10, 2), ["10", "10"])[-1][4]["is_action_valid"]


def test_rl4vlm_punishes_invalid_actions_and_blanks_invalid_numbers() -> None:
    steps = play(EZPoints(reward_scheme="rl4vlm"), (10, 2), ["3", "", "10", "10", "+", "2", "="])
    assert [step[1] for step in steps] == [-1.0, -1.0, 0.0, -1.0, 0.0, 0.0, 10.0]
    assert steps[-1][0] == "Numbers: 10 2. Formula: _ 10 _ + 2"
    assert steps[-1][4]["Formula"] == [" ", "10", " ", "+", "2"]


@pytest.mark.parametrize(("scheme", "reward"), [("verl-agent", 0.0), ("rl4vlm", -1.0)])
def test_a_step_on_a_formula_that_is_too_long_truncates(scheme: str, reward: float) -> None:
    steps = play(EZPoints(reward_scheme=scheme), (10, 2), ["+"] * 4 + ["10", "+", "="])
    assert [step[3] for step in steps] == [False] * 6 + [True]
    assert steps[-1][1:4] == (reward, False, True)


@pytest.mark.parametrize(("scheme", "reward"), [("verl-agent", 0.0), ("rl4vlm", 0.0)])
def test_the_step_limit_truncates_but_not_an_end_on_the_last_step(scheme: str, reward: float) -> None:
    env = EZPoints(max_steps=4, reward_scheme=scheme)
    assert play(env, (10, 2), ["10", "+", "+", "2"])[-1][1:4] == (reward, False, True)
    assert play(env, (10, 2), ["10", "+", "2", "="])[-1][1:4] == (10.0, True, False)


def test_observations_and_infos() -> None:
    env = EZPoints()
    task = task_with(10, 2)
    observation, info = env.reset(options={"task": task})
    assert observation == "Numbers: 10 2. Formula: empty"
    assert info == {
        "won": False,
        "task_id": f"ezpoints/{task}",
        "task_type": "ezpoints",
        "admissible_actions": ["10", "2", "+", "*", "="],
        "Cards": list(hand_of_task(task).cards),
        "Numbers": [10, 2],
        "Formula": [],
    }
    observation, _, _, _, info = env.step("10")
    assert observation == "Numbers: 10 2. Formula: 10"
    assert info["admissible_actions"] == ["2", "+", "*", "="] and info["Formula"] == ["10"]


def test_valid_actions_are_the_admissible_ones() -> None:
    for action in ACTIONS:
        env = EZPoints()
        _, info = env.reset(options={"task": task_with(2, 6)})
        assert env.step(action)[4]["is_action_valid"] == (action in info["admissible_actions"])


def test_hands_come_as_often_as_gym_cards_deals_them() -> None:
    tasks = 4000
    counts: dict[tuple[int, ...], int] = {}
    for task in range(tasks):
        hand = hand_of_task(task)
        numbers = tuple(sorted(hand.numbers))
        counts[numbers] = counts.get(numbers, 0) + 1
        assert [min(RANKS.index(card[1]) + 1, 10) for card in hand.cards] == list(hand.numbers)
    # First card: 4 of 12 ranks count 10; 2, 3, 4 and 6 share their probability between a sum and a product.
    expected = {(2, 10): 9, (5, 7): 4, (4, 8): 3, (3, 9): 3, (2, 6): 2, (3, 4): 2, (6, 6): 1}
    assert set(counts) == set(expected)
    for numbers, share in expected.items():
        # 5 standard deviations of a binomial share are below 0.04 for 4000 tasks.
        assert counts[numbers] / tasks == pytest.approx(share / 24, abs=0.04)


def test_every_hand_can_be_won_in_four_steps() -> None:
    env = EZPoints()
    seen = set()
    for task in range(300):
        _, info = env.reset(options={"task": task})
        seen.add(tuple(info["Numbers"]))
        for _ in range(4):
            action = expert_actions(tuple(info["Numbers"]), tuple(info["Formula"]))[0]
            _, reward, terminated, _, info = env.step(action)
        assert (reward, terminated, info["won"]) == (10.0, True, True)
    assert len(seen) == 13  # seven pairs, all but 6 6 in both orders


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reward_scheme": "verl"}, r"reward_scheme is 'verl'; allowed are \['verl-agent', 'rl4vlm'\]"),
    ],
)
def test_wrong_options_are_refused(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        EZPoints(**options)
