"""Hands of cards, dealt as Gym Cards deals them."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from rllib_gigpo.env_adapters.gym_cards.solver import solution

TARGET = 12  # of EZPoints
RANKS = ("A", "2", "3", "4", "5", "6", "7", "8", "9", "T", "J", "Q", "K")
SUITS = ("H", "S", "D", "C")

# Set the hands of a game apart from any other use of a task number as a seed.
_STREAM = 0x657A70
_POINTS24_STREAM = 0x703234


class Hand(NamedTuple):
    """Cards by name, suit and rank ("HT" is the ten of hearts), and their numbers, side by side."""

    cards: tuple[str, ...]
    numbers: tuple[int, ...]


def hand_of_task(task: int) -> Hand:
    """The two cards of an EZPoints task, the same in any process. Every hand makes 12, by a sum or by a product.

    A face card counts 10. The first card is any but an ace; where 2, 3, 4 or 6 is on it, its partner completes a
    product with probability 1/2, and a sum otherwise; the two change places with probability 1/2 (Zhai et al. 2024,
    "Fine-Tuning Large Vision-Language Models as Decision-Making Agents via Reinforcement Learning", environment
    EZPoints).
    """
    rng = np.random.default_rng([_STREAM, task])
    first_rank = int(rng.integers(2, 14))
    by_product, swapped = rng.random(2) < 0.5
    first_suit, second_suit = rng.choice(SUITS, 2)

    first = min(first_rank, 10)
    second = TARGET // first if by_product and TARGET % first == 0 else TARGET - first
    cards = (first_suit + RANKS[first_rank - 1], second_suit + RANKS[second - 1])
    numbers = (first, second)
    if swapped:
        cards, numbers = cards[::-1], numbers[::-1]
    return Hand((str(cards[0]), str(cards[1])), numbers)


# A group of rollouts deals the same hand as many times as it has members.
@lru_cache(maxsize=1024)
def points24_hand(task: int, *, face_cards_as_ten: bool, solvable_only: bool) -> Hand:
    """The four cards of a Points24 task, the same in any process: ranks and suits uniform and independent.

    With `solvable_only` the first such hand that makes 24, else the first, whether it does or not.
    """
    rng = np.random.default_rng([_POINTS24_STREAM, task])
    while True:
        ranks = rng.integers(1, 14, size=4).tolist()
        suits = rng.choice(SUITS, 4).tolist()
        numbers = tuple(min(rank, 10) if face_cards_as_ten else rank for rank in ranks)
        if not solvable_only or solution(numbers, target=24) is not None:
            return Hand(tuple(suit + RANKS[rank - 1] for suit, rank in zip(suits, ranks, strict=True)), numbers)
