"""The embedded model of Household, and what it was warmed up on."""

from __future__ import annotations

from itertools import islice

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from rllib_gigpo.agent_formats import PromptTemplate, encode_prompt, think_action
from rllib_gigpo.env_adapters import embedded_model_path, make_env
from rllib_gigpo.env_adapters.demonstrations import demonstrations
from rllib_gigpo.env_adapters.household import HOUSEHOLD
from rllib_gigpo.env_adapters.household.embedded_household import game
from rllib_gigpo.env_adapters.household.expert import situation, thought
from rllib_gigpo.env_adapters.household.household import Household
from rllib_gigpo.env_adapters.household.layouts import OBJECTS, RECEPTACLES, Layout
from rllib_gigpo.env_adapters.household.room import Room
from tests.embedded_model_cases import assert_nothing_is_lost, assert_small_and_without_pickle, greedy_response

pytestmark = pytest.mark.integration

DIRECTORY = embedded_model_path("Household")


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(DIRECTORY)


@pytest.fixture(scope="module")
def model() -> PreTrainedModel:
    return AutoModelForCausalLM.from_pretrained(DIRECTORY)


def test_environment_and_model_are_found_by_name() -> None:
    assert isinstance(make_env("Household", max_steps=5), Household)
    assert HOUSEHOLD.embedded_model == DIRECTORY


def test_the_directory_is_small_and_holds_no_pickle() -> None:
    assert_small_and_without_pickle(DIRECTORY)


def test_every_name_is_one_token_and_nothing_is_lost(tokenizer: PreTrainedTokenizerBase) -> None:
    for name in (*OBJECTS, *RECEPTACLES):
        assert len(tokenizer.encode(f" {name}", add_special_tokens=False)) == 1
    rows = list(demonstrations(game, HOUSEHOLD.agent_format, episodes=20, played_by_expert=0.5, seed=7))
    assert max(len(encode_prompt(tokenizer, user_message)) for user_message, _ in rows) < 75
    assert_nothing_is_lost(tokenizer, (text for row in rows for text in row))


def test_the_task_is_the_last_thing_that_a_prompt_says() -> None:
    # At a constant distance from the response; a tiny model hardly learns to read it anywhere else.
    rows = demonstrations(game, HOUSEHOLD.agent_format, episodes=1, played_by_expert=1.0, seed=0)
    for user_message, _ in islice(rows, 3):
        assert user_message.splitlines()[-1].startswith("Task: put ")


@pytest.mark.parametrize(
    ("commands", "stands"),
    [
        ([], ("missing", "away")),
        (["go to drawer"], ("missing", "away")),
        (["go to drawer", "open drawer"], ("here", "away")),
        (["go to fridge"], ("missing", "here")),
        (["go to drawer", "open drawer", "take apple from drawer"], ("held", "away")),
        (["go to drawer", "open drawer", "take apple from drawer", "go to fridge"], ("held", "here")),
    ],
)
def test_a_thought_reads_the_situation(commands: list[str], stands: tuple[str, str]) -> None:
    room = Room(Layout({"apple": "drawer"}, "apple", "fridge"))
    for command in commands:
        room.do(command)
    assert situation(room) == stands
    assert thought(room) == f"The apple is {stands[0]}, the fridge {stands[1]}."


def test_demonstrations_repeat_and_hold_no_situation_too_often() -> None:
    def rows(seed: int, **options: int) -> list[tuple[str, str]]:
        shares = {"played_by_expert": 0.5, "shown_by_expert": 1.0}
        return list(demonstrations(game, HOUSEHOLD.agent_format, episodes=20, seed=seed, **shares, **options))

    assert rows(0) == rows(0) != rows(1)
    few = [response for _, response in rows(0, most_per_situation=5)]
    assert len(few) <= 25 and sum("is missing" in response for response in few) == 10


def test_the_model_answers_in_the_environments_format(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> None:
    prompt = PromptTemplate(HOUSEHOLD.agent_format.prompt_template)
    env = Household()
    for task in range(4):
        observation, info = env.reset(options={"task": task})
        user_message = prompt.render(observation=observation, history=(), step=0, task=info["task_description"])
        response = greedy_response(model, tokenizer, user_message)
        parsed = think_action(response)
        assert parsed.is_valid and parsed.action in info["admissible_actions"], response
        assert response.startswith(f"<think>{thought(env.room)}</think>")
