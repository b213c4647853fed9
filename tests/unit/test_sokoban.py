"""The rules of Sokoban, its contract as an environment, and its level generator."""

from __future__ import annotations

import pytest

from rllib_gigpo.env_adapters.sokoban import SOKOBAN
from rllib_gigpo.env_adapters.sokoban.rules import (
    DIRECTIONS,
    Board,
    Position,
    is_solved,
    move,
    shortest_solution,
)
from rllib_gigpo.env_adapters.sokoban.sokoban import SYMBOLS, Sokoban

pytestmark = pytest.mark.unit


def parse(*rows: str) -> tuple[Board, Position]:
    """Board and position of a square grid in the default symbols."""
    size = len(rows)
    cells = dict(enumerate("".join(rows)))
    assert len(cells) == size * size

    def where(symbols: str) -> frozenset[int]:
        return frozenset(cell for cell, symbol in cells.items() if symbol in symbols)

    (player,) = where("PS")
    return Board(size, where("_O√XPS"), where("O√S")), Position(player, where("X√"))


def draw(board: Board, position: Position) -> list[str]:
    """The inverse of `parse`."""

    def symbol(cell: int) -> str:
        on_target = cell in board.targets
        if cell == position.player:
            return "S" if on_target else "P"
        if cell in position.boxes:
            return "√" if on_target else "X"
        return "O" if on_target else "_" if cell in board.floor else "#"

    return ["".join(symbol(row * board.size + column) for column in range(board.size)) for row in range(board.size)]


def grid_around(line: str) -> list[str]:
    """A square grid of walls with `line` in the middle."""
    wall = "#" * len(line)
    return [wall] * (len(line) // 2) + [line] + [wall] * (len(line) // 2)


def on_its_side(rows: list[str]) -> list[str]:
    """Rows become columns."""
    return ["".join(column) for column in zip(*rows, strict=True)]


def set_up(*rows: str, **options: object) -> Sokoban:
    """An environment in which the level of the grid is being played."""
    board, position = parse(*rows)
    env = Sokoban(size=board.size, num_boxes=len(position.boxes), **options)
    env.reset(options={"task": 0})
    env._level = env.level._replace(board=board, start=position)
    env._position = position
    return env


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ("#P__X_#", "#_P_X_#"),  # a step
        ("#P#_X_#", "#P#_X_#"),  # wall
        ("#_PX__#", "#__PX_#"),  # a push
        ("#__PX##", "#__PX##"),  # a box at a wall
        ("#PXX__#", "#PXX__#"),  # two boxes
        ("#PXO__#", "#_P√__#"),  # onto a target
        ("#P√___#", "#_SX__#"),  # off a target
        ("#P√O__#", "#_S√__#"),  # from target to target
        ("#PO_X_#", "#_S_X_#"),  # on a target oneself
        ("#SX___#", "#OPX__#"),
    ],
)
def test_what_a_move_does(line: str, after: str) -> None:
    board, position = parse(*grid_around(line))
    assert draw(board, move(board, position, "right"))[3] == after
    # The same grid in a mirror, and both on their side.
    board, position = parse(*grid_around(line[::-1]))
    assert draw(board, move(board, position, "left"))[3] == after[::-1]
    board, position = parse(*on_its_side(grid_around(line)))
    assert on_its_side(draw(board, move(board, position, "down")))[3] == after
    board, position = parse(*on_its_side(grid_around(line[::-1])))
    assert on_its_side(draw(board, move(board, position, "up")))[3] == after[::-1]


def test_the_published_rewards() -> None:
    env = set_up("######", "#PX__#", "#__XO#", "#____#", "#__O_#", "######")
    rewards, endings = [], []
    for action in ("down", "right", "right", "right", "up"):
        _, reward, terminated, truncated, info = env.step(action)
        rewards.append(reward)
        endings.append((terminated, truncated, info["won"]))
    # Walks, walks, pushes onto the target, which then blocks, and walks past it.
    assert rewards == pytest.approx([-0.1, -0.1, 0.9, -0.1, -0.1])
    assert endings == [(False, False, False)] * 5
    last = set_up("######", "#____#", "#PXO_#", "#____#", "#____#", "######").step("right")
    assert (last[1], last[2:4]) == (pytest.approx(10.9), (True, False))
    off = set_up("######", "#____#", "#P√_X#", "#___O#", "#____#", "######").step("right")
    assert (off[1], off[2:4]) == (pytest.approx(-1.1), (False, False))


def test_rewards_are_options() -> None:
    env = set_up(
        "#####",
        "#___#",
        "#PXO#",
        "#___#",
        "#####",
        step_reward=-1,
        box_on_target_reward=2.0,
        solved_reward=30.0,
    )
    assert env.step("up")[1] == -1
    env.step("down")
    assert env.step("right")[1] == 31


@pytest.mark.parametrize("action", ["", "still", "Up", "up ", "north", "0", "\0", "ω" * 1000])
def test_anything_but_a_direction_is_a_no_op_that_costs_a_step(action: str) -> None:
    env = Sokoban(max_steps=2, min_solution_length=2, max_solution_length=2)
    first, _ = env.reset(options={"task": 3})
    observation, reward, terminated, truncated, info = env.step(action)
    assert observation == first
    assert (reward, terminated, truncated, info["is_action_valid"]) == (-0.1, False, False, False)
    assert env.step(action)[3], "the no-op did not count as a step"


def test_running_into_a_wall_is_legal() -> None:
    env = set_up("#####", "#P__#", "#_XO#", "#___#", "#####")
    observation, reward, terminated, truncated, info = env.step("up")
    assert observation == "# # # # #\n# P _ _ #\n# _ X O #\n# _ _ _ #\n# # # # #"
    assert (reward, terminated, truncated, info["is_action_valid"]) == (-0.1, False, False, True)


def test_the_step_limit_truncates_but_not_a_win_on_the_last_step() -> None:
    grid = ("#####", "#___#", "#PXO#", "#___#", "#####")
    for last, ending in (("down", (False, True)), ("right", (True, False))):
        env = set_up(*grid, max_steps=3, max_solution_length=3)
        assert [env.step(action)[2:4] for action in ("up", "down", last)][-1] == ending


def test_observations_and_infos() -> None:
    env = set_up("######", "#S___#", "#_X_O#", "#_√__#", "#___##", "######")
    observation, _, _, _, info = env.step("still")
    assert observation == (
        "# # # # # #\n# S _ _ _ #\n# _ X _ O #\n# _ √ _ _ #\n# _ _ _ # #\n# # # # # #"  # two boxes, three targets
    )
    assert info["boxes_on_target"] == 1
    env = Sokoban()
    observation, info = env.reset(options={"task": 17})
    assert info == {
        "won": False,
        "task_id": "sokoban/17",
        "task_type": "sokoban",
        "admissible_actions": ["up", "down", "left", "right"],
        "solution_length": env.level.solution_length,
        "boxes_on_target": 0,
    }
    letters = Sokoban(symbols="WFTBXPS").reset(options={"task": 17})[0]
    assert letters == observation.translate(str.maketrans("#_O√", "WFTB"))
    assert all(symbol in SOKOBAN.agent_format.prompt_template for symbol in SYMBOLS)


@pytest.mark.parametrize(
    "options",
    [{}, {"size": 7, "num_boxes": 2, "min_solution_length": 6, "max_solution_length": 20, "max_steps": 20}],
)
def test_every_level_is_won_by_its_shortest_solution(options: dict) -> None:
    env, lengths = Sokoban(**options), []
    for task in range(40):
        _, info = env.reset(options={"task": task})
        board, start = env.level.board, env.level.start
        assert len(start.boxes) == len(board.targets) == options.get("num_boxes", 1)
        assert start.player in board.floor - start.boxes and start.boxes <= board.floor
        solution = shortest_solution(board, start, max_moves=20)
        assert solution is not None and len(solution) == info["solution_length"]
        for action in solution:
            _, _, terminated, truncated, info = env.step(action)
        assert (terminated, truncated, info["won"]) == (True, False, True)
        lengths.append(len(solution))
    fewest, most = options.get("min_solution_length", 3), options.get("max_solution_length", 12)
    assert fewest <= min(lengths) and max(lengths) <= most and len(set(lengths)) > 3


def test_a_shortest_solution_is_none_longer_than_any_other() -> None:
    env = Sokoban(size=5, max_solution_length=5, max_steps=5)
    for task in range(10):
        env.reset(options={"task": task})
        positions = {env.level.start}
        for _ in range(env.level.solution_length):
            assert not any(is_solved(env.level.board, position) for position in positions)
            positions = {move(env.level.board, position, way) for position in positions for way in DIRECTIONS}
        assert any(is_solved(env.level.board, position) for position in positions)


def test_what_cannot_be_solved_has_no_solution() -> None:
    corner = parse("#####", "#X__#", "#___#", "#P_O#", "#####")
    assert shortest_solution(*corner, max_moves=100) is None
    near = parse("#####", "#___#", "#PXO#", "#___#", "#####")
    assert shortest_solution(*near, max_moves=1) == ["right"]
    assert shortest_solution(*near, max_moves=0) is None


def test_a_difficulty_that_no_level_has_is_one_error_that_names_the_options() -> None:
    env = Sokoban(size=5, min_solution_length=40, max_solution_length=50, max_steps=50, max_tries=20)
    with pytest.raises(ValueError, match=r"task 7: none of max_tries=20 .*size=5 and num_boxes=1.*=40 to .*=50 moves"):
        env.reset(options={"task": 7})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 4}, "size is 4; it must be an integer from 5 to 20"),
        ({"num_boxes": 0}, "num_boxes is 0; it must be an integer from 1 to 4"),
        ({"num_boxes": 5}, "num_boxes is 5"),
        ({"max_steps": 10**9, "max_solution_length": 10**9}, "max_solution_length is 1000000000.*from 1 to 1000"),
        ({"max_steps": 10}, "max_solution_length is 12, but max_steps is 10"),
        ({"min_solution_length": 13}, "min_solution_length is 13; it must be an integer from 1 to 12"),
        ({"max_tries": 0}, "max_tries is 0"),
        ({"step_reward": float("nan")}, "step_reward is nan; it must be a finite number"),
        ({"solved_reward": "10"}, "solved_reward is '10'"),
        ({"symbols": "#_O"}, "symbols is '#_O'; it must be 7 different texts"),
        ({"symbols": "#_O√XPP"}, "7 different texts without blanks"),
        ({"symbols": "# O√XPS"}, "7 different texts without blanks"),
        ({"symbols": 7}, "symbols is 7"),
    ],
)
def test_wrong_options_are_refused(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Sokoban(**options)
