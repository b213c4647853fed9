"""An expert at Sokoban with one box: what it sees in a position, and what it does."""

from __future__ import annotations

from rllib_gigpo.env_adapters.sokoban.rules import DIRECTIONS, Board, Position, is_solved, move


def moves_to_solution(board: Board, start: Position) -> dict[Position, int]:
    """The fewest moves that solve each position that can be reached from `start`, without those that nothing solves.

    For levels with few positions: it looks at all of them.
    """
    before: dict[Position, list[Position]] = {start: []}
    unseen = [start]
    while unseen:
        position = unseen.pop()
        for after in (move(board, position, direction) for direction in DIRECTIONS):
            if after not in before:
                before[after] = []
                unseen.append(after)
            before[after].append(position)
    distances = {position: 0 for position in before if is_solved(board, position)}
    frontier = list(distances)
    while frontier:
        nearer, frontier = frontier, []
        for after in nearer:
            for position in before[after]:
                if position not in distances:
                    distances[position] = distances[after] + 1
                    frontier.append(position)
    return distances


def expert_actions(board: Board, position: Position, distances: dict[Position, int]) -> list[str]:
    """The moves that begin a shortest solution; all four where there is none any more.

    Args:
        distances: `moves_to_solution` of the level.
    """
    if position not in distances:
        return list(DIRECTIONS)
    return [
        direction
        for direction in DIRECTIONS
        if distances.get(move(board, position, direction)) == distances[position] - 1
    ]


def thought(board: Board, position: Position) -> str:
    """Where player, box and target are, and how they lie to each other.

    "Player 2 3, box 2 4, target 4 4. Box level right, target down level." Numbers are row and column from the upper
    left, where the border is 0. The box is seen from the player, the target from the box. All thoughts have the same
    form and length.
    """
    (box,), (target,) = position.boxes, board.targets
    cells = {"Player": position.player, "box": box, "target": target}
    places = ", ".join(f"{name} {cell // board.size} {cell % board.size}" for name, cell in cells.items())
    return f"{places}. Box {_direction(board, position.player, box)}, target {_direction(board, box, target)}."


def _direction(board: Board, seen_from: int, cell: int) -> str:
    """ "up left", "level right", …"""
    rows = cell // board.size - seen_from // board.size
    columns = cell % board.size - seen_from % board.size
    return f"{_side(rows, 'up', 'down')} {_side(columns, 'left', 'right')}"


def _side(difference: int, below_zero: str, above_zero: str) -> str:
    return below_zero if difference < 0 else above_zero if difference > 0 else "level"
