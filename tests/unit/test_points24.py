"""The rules of Points24, its hands, and the solver."""

from __future__ import annotations

from itertools import combinations_with_replacement, permutations, product

import pytest

from rllib_gigpo.env_adapters.gym_cards.arithmetic import evaluate
from rllib_gigpo.env_adapters.gym_cards.hands import RANKS, SUITS, points24_hand
from rllib_gigpo.env_adapters.gym_cards.points24 import Points24
from rllib_gigpo.env_adapters.gym_cards.solver import solution
from tests.environment_cases import at_random, wins

pytestmark = pytest.mark.unit


def numbers_of(task: int, *, solvable_only: bool = False, face_cards_as_ten: bool = True) -> tuple[int, ...]:
    return points24_hand(task, face_cards_as_ten=face_cards_as_ten, solvable_only=solvable_only).numbers


def play(env: Points24, actions: list[str]) -> list[tuple]:
    return [env.step(action) for action in actions]


def expert(info: dict) -> str:
    """The next part of a solution; "=" where there is none."""
    formula = solution(info["Numbers"], target=24) or ()
    written = len(info["Formula"])
    return formula[written] if written < len(formula) else "="


def test_a_formula_of_all_numbers_that_makes_24_wins() -> None:
    for scheme in ("verl-agent", "rl4vlm"):
        env = Points24(solvable_only=True, reward_scheme=scheme)
        _, info = env.reset(options={"task": 1})
        *before, (_, reward, terminated, truncated, info) = play(env, [*solution(info["Numbers"], target=24), "="])
        assert (reward, terminated, truncated, info["won"]) == (10.0, True, False, True)
        assert not any(step[1] or step[2] or step[3] for step in before)


def test_any_other_end_loses() -> None:
    for scheme, lost in (("verl-agent", 0.0), ("rl4vlm", -1.0)):
        for actions in (["="], [*"(((", "="], ["+", "="]):
            env = Points24(reward_scheme=scheme)
            env.reset(options={"task": 0})
            _, reward, terminated, _, info = play(env, actions)[-1]
            assert (reward, terminated, info["won"]) == (lost, True, False)


def test_24_without_all_numbers_does_not_win() -> None:
    task = next(task for task in range(10_000) if {8, 3} <= set(numbers_of(task)))
    env = Points24()
    env.reset(options={"task": task})
    assert play(env, ["8", "*", "3", "="])[-1][1:3] == (0.0, True)


def test_each_card_is_played_once_and_what_is_on_none_is_a_no_op() -> None:
    env = Points24()
    _, info = env.reset(options={"task": 0})
    numbers = [str(number) for number in info["Numbers"]]
    other = next(str(number) for number in range(1, 11) if str(number) not in numbers)
    steps = play(env, [*numbers, numbers[0], other, "11", ""])
    assert [step[4]["is_action_valid"] for step in steps] == [True] * 4 + [False] * 4
    assert steps[-1][0] == f"Numbers: {' '.join(numbers)}. Formula: {' '.join(numbers)}"
    assert steps[-1][4]["admissible_actions"] == ["+", "-", "*", "/", "(", ")", "="]


def test_rl4vlm_blanks_invalid_numbers() -> None:
    env = Points24(reward_scheme="rl4vlm")
    _, info = env.reset(options={"task": 0})
    other = next(str(number) for number in range(1, 11) if number not in info["Numbers"])
    steps = play(env, [other, "", "(", "x"])
    assert [step[1] for step in steps] == [-1.0, -1.0, 0.0, -1.0]
    assert steps[-1][0].endswith("Formula: _ (")


def test_a_step_on_a_formula_that_is_too_long_truncates() -> None:
    for scheme, reward in (("verl-agent", 0.0), ("rl4vlm", -1.0)):
        env = Points24(reward_scheme=scheme)
        env.reset(options={"task": 0})
        steps = play(env, ["("] * 22)
        assert [step[3] for step in steps] == [False] * 21 + [True] and steps[-1][1] == reward


def test_infos() -> None:
    env = Points24()
    _, info = env.reset(options={"task": 9})
    hand = points24_hand(9, face_cards_as_ten=True, solvable_only=False)
    assert info == {
        "won": False,
        "task_id": "points24/9",
        "task_type": "points24",
        "admissible_actions": [*dict.fromkeys(map(str, hand.numbers)), "+", "-", "*", "/", "(", ")", "="],
        "Cards": list(hand.cards),
        "Numbers": list(hand.numbers),
        "Formula": [],
    }


@pytest.mark.parametrize(("face_cards_as_ten", "highest"), [(True, 10), (False, 13)])
def test_cards_are_drawn_evenly(face_cards_as_ten: bool, highest: int) -> None:
    hands = [points24_hand(task, face_cards_as_ten=face_cards_as_ten, solvable_only=False) for task in range(1500)]
    cards = [card for hand in hands for card in hand.cards]
    # 5 standard deviations of a share of 1/13 are 0.017 for 6000 cards, of 1/4 0.028.
    for rank in RANKS:
        assert sum(card[1] == rank for card in cards) / 6000 == pytest.approx(1 / 13, abs=0.018)
    for suit in SUITS:
        assert sum(card[0] == suit for card in cards) / 6000 == pytest.approx(1 / 4, abs=0.029)
    for hand in hands:
        assert list(hand.numbers) == [min(RANKS.index(card[1]) + 1, highest) for card in hand.cards]


def test_the_expert_wins_every_solvable_task_and_chance_none() -> None:
    env = Points24(solvable_only=True)
    assert wins(env, range(40), expert) == 1.0
    assert wins(env, range(100), at_random(0)) < 0.02


def test_as_published_some_hands_cannot_win() -> None:
    unsolvable = [task for task in range(60) if solution(numbers_of(task), target=24) is None]
    assert 6 <= len(unsolvable) <= 25
    assert wins(Points24(), range(60), expert) == 1 - len(unsolvable) / 60
    for task in range(60):
        both = numbers_of(task), numbers_of(task, solvable_only=True)
        assert (both[0] == both[1]) == (task not in unsolvable), "a solvable hand is left as it is"


@pytest.mark.parametrize(
    ("numbers", "solvable"),
    [
        ((3, 3, 8, 8), True),  # 8 / (3 - 8 / 3) alone
        ((1, 5, 5, 5), True),  # (5 - 1 / 5) * 5
        ((1, 1, 1, 1), False),
        ((10, 10, 10, 10), False),
        ((1, 2, 7, 7), True),
        ((1, 1, 1, 7), False),
    ],
)
def test_the_solver_knows_classic_hands(numbers: tuple[int, ...], solvable: bool) -> None:
    formula = solution(numbers, target=24)
    assert (formula is not None) == solvable
    if formula is not None:
        assert evaluate("".join(formula)) == 24
        assert sorted(int(part) for part in formula if part.isdigit()) == sorted(numbers)


def test_the_solver_misses_nothing_that_brute_force_finds() -> None:
    patterns = ("{}{}{}{}{}", "({}{}{}){}{}", "{}{}({}{}{})")
    for numbers in combinations_with_replacement(range(1, 10, 2), 3):
        values = {
            evaluate(pattern.format(a, x, b, y, c))
            for a, b, c in set(permutations(numbers))
            for x, y in product("+-*/", repeat=2)
            for pattern in patterns
        }
        assert (solution(numbers, target=12) is not None) == (12 in values), numbers


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"solvable_only": 1}, "solvable_only is 1; it must be True or False"),
        ({"face_cards_as_ten": "yes"}, "face_cards_as_ten is 'yes'"),
        ({"reward_scheme": "verl"}, r"reward_scheme is 'verl'; allowed are \['verl-agent', 'rl4vlm'\]"),
        ({"observation": "rgb"}, r"observation is 'rgb'; allowed are \['text', 'image'\]"),
        ({"image_size": 16}, "image_size is 16; it must be an integer from 32 to 4096"),
    ],
)
def test_wrong_options_are_refused(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Points24(**options)
