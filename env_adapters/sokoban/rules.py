"""The rules of Sokoban: what a move does, and how few moves solve a position."""

from __future__ import annotations

from typing import NamedTuple

DIRECTIONS = ("up", "down", "left", "right")

# Positions a search looks at before it gives up: about a second.
MAX_POSITIONS = 100_000


class Board(NamedTuple):
    """What never moves. A cell is an integer, row * size + column; whatever is no floor is wall, the border always is.

    Attributes:
        size: Rows and columns, border included.
        floor: Cells that are not wall.
        targets: Those on which boxes are to stand, as many as there are boxes.
    """

    size: int
    floor: frozenset[int]
    targets: frozenset[int]

    def offset(self, direction: str) -> int:
        """What a step in one of `DIRECTIONS` adds to a cell."""
        return {"up": -self.size, "down": self.size, "left": -1, "right": 1}[direction]


class Position(NamedTuple):
    """What moves: the player's cell and the boxes' cells."""

    player: int
    boxes: frozenset[int]


def is_solved(board: Board, position: Position) -> bool:
    """Whether every box is on a target."""
    return position.boxes == board.targets


def move(board: Board, position: Position, direction: str) -> Position:
    """The position after a step or a push; the same one where wall or a second box is in the way."""
    offset = board.offset(direction)
    ahead = position.player + offset
    if ahead not in board.floor:
        return position
    if ahead not in position.boxes:
        return position._replace(player=ahead)
    behind_box = ahead + offset
    if behind_box not in board.floor or behind_box in position.boxes:
        return position
    return Position(ahead, (position.boxes - {ahead}) | {behind_box})


def shortest_solution(board: Board, position: Position, *, max_moves: int) -> list[str] | None:
    """The fewest moves that solve a position, by breadth-first search.

    Returns:
        The moves, none where it is solved already; None where there are no such of at most `max_moves`, or the search
        gave up at `MAX_POSITIONS`.
    """
    moves_to: dict[Position, list[str]] = {position: []}
    frontier = [position]
    for length in range(max_moves + 1):
        for reached in frontier:
            if is_solved(board, reached):
                return moves_to[reached]
        if length == max_moves or len(moves_to) > MAX_POSITIONS:
            return None
        following: list[Position] = []
        for reached in frontier:
            for direction in DIRECTIONS:
                after = move(board, reached, direction)
                if after not in moves_to:
                    moves_to[after] = [*moves_to[reached], direction]
                    following.append(after)
        frontier = following
    return None
