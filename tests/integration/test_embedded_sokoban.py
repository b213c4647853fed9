"""The embedded model of Sokoban, the expert that it imitated, and what it was warmed up on."""

from __future__ import annotations

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerBase

from rllib_gigpo.agent_formats import PromptTemplate, encode_prompt, think_action
from rllib_gigpo.env_adapters import embedded_model_path
from rllib_gigpo.env_adapters.demonstrations import demonstrations
from rllib_gigpo.env_adapters.sokoban import EASY_LEVELS, SOKOBAN
from rllib_gigpo.env_adapters.sokoban.embedded_sokoban import game
from rllib_gigpo.env_adapters.sokoban.expert import expert_actions, moves_to_solution, thought
from rllib_gigpo.env_adapters.sokoban.rules import DIRECTIONS, Board, Position, move, shortest_solution
from rllib_gigpo.env_adapters.sokoban.sokoban import Sokoban
from tests.embedded_model_cases import assert_nothing_is_lost, assert_small_and_without_pickle, greedy_response

pytestmark = pytest.mark.integration

DIRECTORY = embedded_model_path("Sokoban")


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(DIRECTORY)


def test_the_directory_is_small_and_holds_no_pickle() -> None:
    assert SOKOBAN.embedded_model == DIRECTORY
    assert_small_and_without_pickle(DIRECTORY)


def test_a_cell_is_one_token_and_nothing_is_lost(tokenizer: PreTrainedTokenizerBase) -> None:
    rows = list(demonstrations(game, SOKOBAN.agent_format, episodes=10, played_by_expert=0.5, seed=7))
    assert len({len(encode_prompt(tokenizer, user_message)) for user_message, _ in rows}) == 1
    assert len({len(tokenizer.encode(response)) for _, response in rows}) == 1
    assert_nothing_is_lost(tokenizer, (text for row in rows for text in row))


def test_distances_are_those_of_the_shortest_solutions() -> None:
    env = Sokoban(**EASY_LEVELS)
    for task in range(5):
        _, info = env.reset(options={"task": task})
        board, start = env.level.board, env.level.start
        distances = moves_to_solution(board, start)
        assert distances[start] == info["solution_length"]
        for direction in DIRECTIONS:
            after = move(board, start, direction)
            solution = shortest_solution(board, after, max_moves=50)
            assert distances.get(after) == (None if solution is None else len(solution))


def test_the_expert_wins_by_a_shortest_solution() -> None:
    env = Sokoban(**EASY_LEVELS)
    for task in range(20):
        _, info = env.reset(options={"task": task})
        distances = moves_to_solution(env.level.board, env.position)
        for _ in range(info["solution_length"]):
            assert not info["won"]
            info = env.step(expert_actions(env.level.board, env.position, distances)[-1])[4]
        assert info["won"]


def test_where_nothing_wins_any_more_the_expert_knows_nothing_better() -> None:
    board = Board(5, frozenset({6, 7, 8, 11, 12, 13, 16, 17, 18}), frozenset({18}))
    stuck = Position(7, frozenset({6}))
    distances = moves_to_solution(board, stuck)
    assert distances == {} and expert_actions(board, stuck, distances) == list(DIRECTIONS)


@pytest.mark.parametrize(
    ("player", "box", "target", "reading"),
    [
        (15, 16, 28, "Player 2 3, box 2 4, target 4 4. Box level right, target down level."),
        (28, 14, 9, "Player 4 4, box 2 2, target 1 3. Box up left, target up right."),
        (9, 15, 14, "Player 1 3, box 2 3, target 2 2. Box down level, target level left."),
    ],
)
def test_a_thought_reads_the_position(player: int, box: int, target: int, reading: str) -> None:
    board = Board(6, frozenset(range(36)), frozenset({target}))
    assert thought(board, Position(player, frozenset({box}))) == reading


def test_the_model_answers_in_the_environments_format(tokenizer: PreTrainedTokenizerBase) -> None:
    model = AutoModelForCausalLM.from_pretrained(DIRECTORY)
    prompt = PromptTemplate(SOKOBAN.agent_format.prompt_template)
    env, right = Sokoban(**EASY_LEVELS), 0
    for task in range(5):
        observation, _ = env.reset(options={"task": task})
        response = greedy_response(model, tokenizer, prompt.render(observation=observation, history=(), step=0))
        parsed = think_action(response)
        assert parsed.is_valid and parsed.action in DIRECTIONS, response
        right += response.startswith(f"<think>{thought(env.level.board, env.position)}</think>")
    # Most readings are right, not all: see the model's README.
    assert right >= 3
