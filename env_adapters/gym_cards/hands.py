"""Hands of two cards for EZPoints, dealt as Gym Cards deals them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

TARGET = 12
RANKS = ("A", "2", "3", "4", "5", "6", "7", "8", "9", "T", "J", "Q", "K")
SUITS = ("H", "S", "D", "C")

# Sets these hands apart from any other use of a task number as a seed.
_STREAM = 0x657A70


class Hand(NamedTuple):
    """Two cards: their names, suit and rank ("HT" is the ten of hearts), and their numbers (a face card counts 10)."""

    cards: tuple[str, str]
    numbers: tuple[int, int]


def hand_of_task(task: int) -> Hand:
    """The hand of a task, the same in any process. Every hand makes 12, by a sum or by a product.

    The first card is any but an ace; where 2, 3, 4 or 6 is on it, its partner completes a product with probability 1/2,
    and a sum otherwise; the two change places with probability 1/2 (Zhai et al. 2024, "Fine-Tuning Large
    Vision-Language Models as Decision-Making Agents via Reinforcement Learning", environment EZPoints).
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
