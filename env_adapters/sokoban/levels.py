"""Sokoban levels, by task number: random rooms, random play backwards from the solution, a solver as the judge."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rllib_gigpo.env_adapters.sokoban.rules import DIRECTIONS, Board, Position, shortest_solution

# Share of the cells within the border that are floor.
FLOOR_SHARE = (0.4, 0.9)
PULL_PROBABILITY = 0.7

# Sets these levels apart from any other use of a task number as a seed.
_STREAM = 0x736F6B6F


class Level(NamedTuple):
    """A level and the number of moves of its shortest solution."""

    board: Board
    start: Position
    solution_length: int


def level_of_task(
    task: int, *, size: int, num_boxes: int, min_solution_length: int, max_solution_length: int, max_tries: int
) -> Level:
    """The level of a task, the same in any process: the first of its candidates whose shortest solution fits.

    Raises:
        ValueError: None of `max_tries` candidates does.
    """
    rng = np.random.default_rng([_STREAM, task])
    for _ in range(max_tries):
        board = _random_board(rng, size, num_boxes)
        start = _played_backwards(rng, board, steps=int(rng.integers(min_solution_length, 4 * max_solution_length + 1)))
        solution = shortest_solution(board, start, max_moves=max_solution_length)
        if solution is not None and len(solution) >= min_solution_length:
            return Level(board, start, len(solution))
    raise ValueError(
        f"Sokoban task {task}: none of max_tries={max_tries} levels with size={size} and num_boxes={num_boxes} has a "
        f"shortest solution of min_solution_length={min_solution_length} to max_solution_length={max_solution_length} "
        "moves; lower min_solution_length, raise max_solution_length or max_tries, or take a larger size"
    )


def _random_board(rng: np.random.Generator, size: int, num_boxes: int) -> Board:
    """A connected patch of floor, grown cell by cell, with targets anywhere on it."""
    inside = {row * size + column for row in range(1, size - 1) for column in range(1, size - 1)}
    fewest, most = (round(share * len(inside)) for share in FLOOR_SHARE)
    # Room for the boxes, the player, and one cell to move.
    num_cells = max(int(rng.integers(fewest, most + 1)), num_boxes + 2)
    floor = [_choice(rng, sorted(inside))]
    while len(floor) < num_cells:
        neighbour = _choice(rng, floor) + _choice(rng, [-size, size, -1, 1])
        if neighbour in inside and neighbour not in floor:
            floor.append(neighbour)
    targets = rng.choice(sorted(floor), size=num_boxes, replace=False)
    return Board(size, frozenset(floor), frozenset(targets.tolist()))


def _played_backwards(rng: np.random.Generator, board: Board, *, steps: int) -> Position:
    """A position from which the boxes can be pushed onto the targets: walks, and pulls where a box is behind."""
    boxes = set(board.targets)
    player = _choice(rng, sorted(board.floor - boxes))
    offsets = [board.offset(direction) for direction in DIRECTIONS]
    for direction, pulls in zip(rng.integers(4, size=steps), rng.random(steps) < PULL_PROBABILITY, strict=True):
        ahead, behind = player + offsets[direction], player - offsets[direction]
        if ahead not in board.floor or ahead in boxes:
            continue
        if pulls and behind in boxes:
            boxes.remove(behind)
            boxes.add(player)
        player = ahead
    return Position(player, frozenset(boxes))


def _choice(rng: np.random.Generator, values: list[int]) -> int:
    return values[rng.integers(len(values))]
