"""The rules of Blackjack, and its deck."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from rllib_gigpo.env_adapters.gym_cards.blackjack import Blackjack, has_usable_ace, is_natural, total
from tests.environment_cases import at_random, wins

pytestmark = pytest.mark.unit


class Dealt(Blackjack):
    """Blackjack on a deck that is laid out: dealer, dealer, player, player, then what is drawn."""

    def __init__(self, cards: str, **options):
        self.cards = [f"H{rank}" for rank in cards]
        super().__init__(**options)

    def _draw(self) -> str:
        return self.cards.pop(0)


def last(cards: str, *actions: str, **options) -> tuple:
    """What the last action answers, as (reward, terminated, won)."""
    env = Dealt(cards, **options)
    env.reset(seed=0)
    for action in actions:
        _, reward, terminated, _, info = env.step(action)
    assert not env.cards, "a card was left"
    return reward, terminated, info["won"]


@pytest.mark.parametrize(
    ("cards", "actions", "outcome"),
    [
        ("T7K8", ["stand"], (1.0, True, True)),  # 18 against 17
        ("T8K8", ["stand"], (0.0, True, False)),
        ("T9K8", ["stand"], (-1.0, True, False)),
        ("T6K2T", ["stand"], (1.0, True, True)),  # the dealer draws at 16, and is bust
        ("T6K25", ["stand"], (-1.0, True, False)),
        ("A6K8", ["stand"], (1.0, True, True)),  # the dealer stands on a soft 17
        ("A5K8T5", ["stand"], (-1.0, True, False)),  # 16, 16 with the ace as 1, then 21
        ("T7K56", ["hit"], (0.0, False, False)),
        ("T7K56", ["hit", "stand"], (1.0, True, True)),
        ("T7K5J", ["hit"], (-1.0, True, False)),  # bust, and the dealer never plays
        ("T7A8T", ["hit"], (0.0, False, False)),  # the ace counts 1 now
        ("T7A8T", ["hit", "stand"], (1.0, True, True)),
    ],
)
def test_what_a_game_is_worth(cards: str, actions: list[str], outcome: tuple) -> None:
    assert last(cards, *actions) == outcome


def test_verl_agent_lets_a_bust_off() -> None:
    assert last("T7K5J", "hit", reward_scheme="verl-agent") == (0.0, True, False)
    assert last("T9K8", "stand", reward_scheme="verl-agent") == (-1.0, True, False)


def test_naturals() -> None:
    assert last("T7AK", "stand") == (1.0, True, True)
    assert last("T7AK", "stand", natural=True) == (1.5, True, True)
    assert last("AKAK", "stand", natural=True) == (0.0, True, False)
    assert last("T7A55", "hit", "stand", natural=True) == (1.0, True, True)  # 21 of three cards is none
    # 21 of three cards draws with a natural, except by Sutton and Barto.
    assert last("T6AK5", "stand") == (0.0, True, False)
    assert last("T6AK5", "stand", sab=True) == (1.0, True, True)
    assert last("T7AK", "stand", sab=True, natural=True) == (1.0, True, True)
    assert last("AKAK", "stand", sab=True) == (0.0, True, False)


@pytest.mark.parametrize(
    ("ranks", "counts", "ace", "natural"),
    [
        ("AK", 21, True, True),
        ("TA", 21, True, True),
        ("AA", 12, True, False),
        ("AAK", 12, False, False),
        ("A5", 16, True, False),
        ("A5J", 16, False, False),
        ("QQ", 20, False, False),
        ("QQ2", 22, False, False),
        ("A55", 21, True, False),
    ],
)
def test_what_cards_count(ranks: str, counts: int, ace: bool, natural: bool) -> None:
    cards = [f"S{rank}" for rank in ranks]
    assert (total(cards), has_usable_ace(cards), is_natural(cards)) == (counts, ace, natural)


def test_observations_and_infos() -> None:
    env = Dealt("A7K56T")
    observation, info = env.reset(options={"task": 4})
    assert observation == "Sum: 15. Usable ace: no. Dealer shows: ace"
    assert info == {
        "won": False,
        "task_id": "blackjack/4",
        "task_type": "blackjack",
        "admissible_actions": ["stand", "hit"],
        "Player Cards": ["HK", "H5"],
        "Dealer Cards": ["HA"],
    }
    observation, *_, info = env.step("hit")
    assert observation == "Sum: 21. Usable ace: no. Dealer shows: ace" and info["Dealer Cards"] == ["HA"]
    assert env.step("stand")[4]["Dealer Cards"] == ["HA", "H7"]
    env = Dealt("T2A5")
    assert env.reset()[0] == "Sum: 16. Usable ace: yes. Dealer shows: 10"


@pytest.mark.parametrize("action", ["", "Hit", "hit ", "stick", "0", "double"])
def test_what_is_no_action_is_a_no_op_that_costs_a_step(action: str) -> None:
    env = Blackjack(max_steps=2)
    start, _ = env.reset(seed=1)
    observation, reward, terminated, truncated, info = env.step(action)
    assert (observation, reward, terminated, truncated, info["is_action_valid"]) == (start, 0.0, False, False, False)
    assert env.step(action)[3]


def winning_hits(env: Blackjack, task: int) -> int | None:
    """How many hits before standing win, by one who sees the deck; None where none do."""
    for hits in range(10):
        env.reset(options={"task": task})
        for action in [*["hit"] * hits, "stand"]:
            _, _, terminated, _, info = env.step(action)
            if terminated:
                break
        if info["won"]:
            return hits
    return None


def test_who_sees_the_deck_wins_what_can_be_won() -> None:
    env = Blackjack()
    winnable = [task for task in range(500) if winning_hits(env, task) is not None]
    # 5 standard deviations of 500 games are 0.11.
    assert len(winnable) / 500 == pytest.approx(0.62, abs=0.11)
    hits = {task: winning_hits(env, task) for task in winnable}
    assert wins(env, winnable, lambda info: "hit" if _hits_of(info) < hits[_task_of(info)] else "stand") == 1.0


def _task_of(info: dict) -> int:
    return int(info["task_id"].split("/")[1])


def _hits_of(info: dict) -> int:
    return len(info["Player Cards"]) - 2


def returns_in_gymnasium(hits_below: int, games: int) -> np.ndarray:
    """The returns of Gymnasium's own game, float[games], for one who hits below a sum."""
    env, returns = gym.make("Blackjack-v1"), []
    for seed in range(games):
        (total_now, _, _), _ = env.reset(seed=seed)
        terminated = False
        while not terminated:
            (total_now, _, _), reward, terminated, _, _ = env.step(int(total_now < hits_below))
        returns.append(reward)
    return np.array(returns)


def returns_here(hits_below: int, games: int) -> np.ndarray:
    env, returns = Blackjack(), []
    for task in range(games):
        _, info = env.reset(options={"task": task})
        terminated = False
        while not terminated:
            action = "hit" if total(info["Player Cards"]) < hits_below else "stand"
            _, reward, terminated, _, info = env.step(action)
        returns.append(reward)
    return np.array(returns)


@pytest.mark.parametrize("hits_below", [12, 17, 20])
def test_it_is_gymnasiums_game(hits_below: int) -> None:
    there, here = returns_in_gymnasium(hits_below, 800), returns_here(hits_below, 800)
    for outcome in (-1, 0, 1):
        # 5 standard deviations of the difference of two shares of 800 games are at most 0.125.
        assert (there == outcome).mean() == pytest.approx((here == outcome).mean(), abs=0.126)


def test_chance_wins_a_quarter() -> None:
    assert wins(Blackjack(), range(1000), at_random(0)) == pytest.approx(0.28, abs=0.07)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"natural": 1}, "natural is 1; it must be True or False"),
        ({"sab": None}, "sab is None"),
        ({"reward_scheme": "gymnasium"}, "reward_scheme is 'gymnasium'"),
    ],
)
def test_wrong_options_are_refused(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Blackjack(**options)
