"""Nim: its rules, its endings, and that it is an environment as any other."""

from __future__ import annotations

from typing import Any

import pytest

from rllib_gigpo.env_adapters.multi_agent.nim import Nim
from rllib_gigpo.env_adapters.multi_agent.nim_rules import SEATS, best_moves, moves, nim_task
from tests.environment_cases import fingerprints_in_other_processes

pytestmark = pytest.mark.unit


def play(env: Nim, task: int, choose: Any) -> tuple[list[str], Any]:
    """Who moved, and the last answer; `choose` gets an agent and the stones that are left."""
    observations, _ = env.reset(options={"task": task})
    movers, answer = [], None
    while answer is None or not (answer[2]["__all__"] or answer[3]["__all__"]):
        (mover,) = observations
        movers.append(mover)
        answer = env.step({mover: choose(mover, env.stones)})
        observations = answer[0]
    return movers, answer


def test_a_task_decides_the_stones_and_who_begins() -> None:
    tasks = [nim_task(task, most_stones=20, most_taken=3) for task in range(2_000)]
    assert {task.stones for task in tasks} == set(range(4, 21))
    assert 0.45 < sum(task.first == "player" for task in tasks) / len(tasks) < 0.55
    assert tasks[:9] == [nim_task(task, most_stones=20, most_taken=3) for task in range(9)]


@pytest.mark.parametrize(
    ("stones", "best", "possible"),
    [
        (1, ["take 1"], ["take 1"]),
        (3, ["take 3"], ["take 1", "take 2", "take 3"]),
        (4, ["take 1", "take 2", "take 3"], ["take 1", "take 2", "take 3"]),
        (14, ["take 2"], ["take 1", "take 2", "take 3"]),
    ],
)
def test_the_best_moves_leave_a_multiple_of_four(stones: int, best: list[str], possible: list[str]) -> None:
    assert best_moves(stones, most_taken=3) == best
    assert moves(stones, most_taken=3) == possible


def test_who_plays_best_from_a_winning_start_wins_whoever_that_is() -> None:
    env = Nim()
    for task in range(40):
        stones, first = nim_task(task, most_stones=20, most_taken=3)
        winner = first if stones % 4 else next(seat for seat in SEATS if seat != first)
        movers, (observations, rewards, terminated, truncated, infos) = play(
            env,
            task,
            lambda mover, left, winner=winner: best_moves(left, most_taken=3)[0] if mover == winner else "take 1",
        )
        assert movers[0] == first and movers[-1] == winner
        assert rewards == {seat: 1.0 if seat == winner else -1.0 for seat in SEATS if seat in movers}
        assert terminated["__all__"] and not truncated["__all__"]
        assert {info["won"] for info in infos.values()} == {winner == "player"}
        assert set(observations.values()) == {"Stones: 0"}


def test_an_invalid_move_is_no_way_to_wait() -> None:
    env = Nim()
    (mover,) = env.reset(options={"task": 3})[0]
    stones = env.stones
    for invalid in ("", "take 9"):
        observations, rewards, terminated, _, infos = env.step({mover: invalid})
        assert list(observations) == [mover] and env.stones == stones
        assert rewards == {mover: 0.0} and not terminated["__all__"] and not infos[mover]["is_action_valid"]
    # A valid move forgives, so that the limit is of moves on end.
    (other,) = env.step({mover: "take 1"})[0]
    (mover_again,) = env.step({other: "take 1"})[0]
    assert mover_again == mover
    env.step({mover: "pass"})
    env.step({mover: "pass"})
    _, rewards, terminated, _, infos = env.step({mover: "pass"})
    assert terminated["__all__"] and rewards == {mover: -1.0, other: 1.0}
    assert infos["player"]["won"] == (mover != "player")


def test_max_steps_truncates_without_a_winner() -> None:
    _, (_, rewards, terminated, truncated, infos) = play(Nim(max_steps=2), 1, lambda mover, left: "take 1")
    assert truncated["__all__"] and not terminated["__all__"]
    assert set(rewards.values()) == {0.0} and not any(info["won"] for info in infos.values())


def test_it_starts_alike_in_other_processes() -> None:
    here = repr([nim_task(task, most_stones=20, most_taken=3) for task in range(20)])
    imports = "from rllib_gigpo.env_adapters.multi_agent.nim_rules import nim_task"
    there = fingerprints_in_other_processes("[nim_task(t, most_stones=20, most_taken=3) for t in range(20)]", imports)
    # NamedTuples print alike, wherever.
    assert there == {here}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stones": 3}, "options .'stones'.; known are"),
        ({"most_taken": 1}, "most_taken is 1; it must be an integer of at least 2"),
        ({"most_stones": 3}, "most_stones is 3; it must be an integer from 4"),
        ({"max_invalid": -1}, "max_invalid is -1"),
    ],
)
def test_wrong_options_are_named(options: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Nim(options)


def test_wrong_acts_are_named() -> None:
    env = Nim()
    with pytest.raises(RuntimeError, match="before reset"):
        env.step({"player": "take 1"})
    (mover,) = env.reset(options={"task": 0})[0]
    (other,) = (seat for seat in SEATS if seat != mover)
    with pytest.raises(ValueError, match=f"it is the turn of '{mover}'"):
        env.step({other: "take 1"})
    with pytest.raises(TypeError, match="Nim takes text"):
        env.step({mover: 1})
