"""TextArena's games as environments; where the package is not installed, only that this is said."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from rllib_gigpo.agent_formats import ParsedResponse
from rllib_gigpo.env_adapters import make_env
from rllib_gigpo.env_adapters.multi_agent.global_random import GlobalRandomState
from rllib_gigpo.env_adapters.multi_agent.verbatim_action import verbatim_action
from tests.textarena_cases import IS_INSTALLED, needs_textarena

pytestmark = pytest.mark.integration


@pytest.mark.skipif(IS_INSTALLED, reason="textarena is installed")
def test_without_the_package_the_error_says_how_to_get_it() -> None:
    with pytest.raises(ImportError, match=r"pip install 'rllib-gigpo\[textarena\]'"):
        make_env("TextArena")


def test_global_generators_go_on_as_if_nobody_had_used_them() -> None:
    random.seed(1), np.random.seed(1)
    expected = random.random(), np.random.random()
    random.seed(1), np.random.seed(1)
    state, again = GlobalRandomState(7), GlobalRandomState(7)
    with state:
        first = random.random(), np.random.random()
    with state:
        second = random.random(), np.random.random()
    assert (random.random(), np.random.random()) == expected
    with again:
        assert (random.random(), np.random.random(), random.random(), np.random.random()) == (
            first[0],
            first[1],
            second[0],
            second[1],
        )


def test_case_survives_the_parser() -> None:
    assert verbatim_action("<think>a</think><action> [CRANE] </action>") == ParsedResponse("[CRANE]", True, None)
    assert verbatim_action("[CRANE]").reason == "no_think"


def played(env: Any, task: int, moves: list[str]) -> tuple[list[str], Any]:
    """Who moved, and the last answer."""
    observations, _ = env.reset(options={"task": task})
    movers, answer = [], None
    for move in moves:
        (mover,) = observations
        movers.append(mover)
        answer = env.step({mover: move})
        observations = answer[0]
    return movers, answer


@needs_textarena
def test_a_won_game_of_tic_tac_toe() -> None:
    env = make_env("TextArena", game="TicTacToe-v0-train")
    firsts = set()
    for task in range(8):
        movers, (observations, rewards, terminated, truncated, infos) = played(
            env, task, ["[0]", "[3]", "[1]", "[4]", "[2]"]
        )
        first = movers[0]
        firsts.add(first)
        assert movers == [first, movers[1], first, movers[1], first]
        assert rewards == {first: 1.0, movers[1]: -1.0}
        assert terminated["__all__"] and not truncated["__all__"]
        assert {info["won"] for info in infos.values()} == {first == "player"}
        assert all(info["is_action_valid"] for info in infos.values())
        assert set(observations) == set(movers)
    assert firsts == {"player", "opponent"}


@needs_textarena
def test_an_invalid_move_is_called_so_and_the_second_loses() -> None:
    env = make_env("TextArena", game="TicTacToe-v0-train")
    observations, _ = env.reset(options={"task": 0})
    (mover,) = observations
    observations, rewards, terminated, _, infos = env.step({mover: ""})
    assert list(observations) == [mover] and not terminated["__all__"] and rewards == {mover: 0.0}
    assert infos[mover]["is_action_valid"] is False
    _, rewards, terminated, _, infos = env.step({mover: "over there"})
    assert terminated["__all__"] and rewards == {mover: -1.0}
    assert infos[mover]["is_action_valid"] is False and infos[mover]["won"] is False


@needs_textarena
@pytest.mark.parametrize(("game", "players"), [("KuhnPoker-v0", 2), ("ConnectFour-v0", 2), ("GuessTheNumber-v0", 1)])
def test_a_task_decides_the_game_and_nobody_else_s_random_numbers(game: str, players: int) -> None:
    one, other = (make_env("TextArena", game=game, num_players=players) for _ in range(2))
    moves = ["[check]", "[bet]"] if game.startswith("Kuhn") else ["[col 3]", "[col 2]"]
    random.seed(5)
    here = [played(one, task, moves[: 2 if players == 2 else 1]) for task in range(4)]
    state = random.getstate()
    random.seed(6)
    there = [played(other, task, moves[: 2 if players == 2 else 1]) for task in range(4)]
    assert here == there
    random.seed(5)
    assert random.getstate() == state
    assert {mover for movers, _ in here for mover in movers} <= set(one.possible_agents)


@needs_textarena
def test_max_steps_truncates_and_wrong_options_are_named() -> None:
    _, (_, _, terminated, truncated, _) = played(make_env("TextArena", max_steps=2), 0, ["[0]", "[1]"])
    assert truncated["__all__"] and not terminated["__all__"]
    with pytest.raises(ValueError, match="game is 'TicTacTo-v0', which TextArena does not have; nearest are"):
        make_env("TextArena", game="TicTacTo-v0")
    with pytest.raises(ValueError, match="got options"):
        make_env("TextArena", gaem="x")
