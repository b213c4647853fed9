"""Nim with one pile: players take stones in turn, and who takes the last one wins."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

PLAYER, OPPONENT = SEATS = ("player", "opponent")

# Sets these tasks apart from any other use of a task number as a seed.
_STREAM = 0x6E696D


class NimTask(NamedTuple):
    """How many stones there are at first, and who begins."""

    stones: int
    first: str


def nim_task(task: int, *, most_stones: int, most_taken: int) -> NimTask:
    """The task of that number, the same in any process: from `most_taken` + 1 to `most_stones` stones, uniformly, and
    either one begins."""
    rng = np.random.default_rng([_STREAM, task])
    return NimTask(int(rng.integers(most_taken + 1, most_stones + 1)), SEATS[int(rng.integers(2))])


def moves(stones: int, *, most_taken: int) -> list[str]:
    """Everything that can be done with so many stones, "take 1" first."""
    return [f"take {number}" for number in range(1, min(most_taken, stones) + 1)]


def number_taken(move: str) -> int:
    """How many stones one of the `moves` takes."""
    return int(move.removeprefix("take "))


def best_moves(stones: int, *, most_taken: int) -> list[str]:
    """What leaves the other one a multiple of `most_taken` + 1, from where only mistakes of the winner save a player;
    everything, where that cannot be done."""
    surplus = stones % (most_taken + 1)
    return [f"take {surplus}"] if surplus else moves(stones, most_taken=most_taken)
