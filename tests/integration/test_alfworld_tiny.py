"""ALFWorldTiny, its expert, and its embedded model."""

from __future__ import annotations

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerBase

from rllib_gigpo.agent_formats import PromptTemplate, encode_prompt, think_action
from rllib_gigpo.env_adapters import embedded_model_path, make_env
from rllib_gigpo.env_adapters.alfworld import ALFWORLD_TINY
from rllib_gigpo.env_adapters.alfworld.embedded_alfworld import game
from rllib_gigpo.env_adapters.alfworld.expert import Expert
from rllib_gigpo.env_adapters.alfworld.tiny import ALFWorldTiny
from rllib_gigpo.env_adapters.demonstrations import demonstrations
from tests.alfworld_cases import needs_alfworld
from tests.embedded_model_cases import assert_nothing_is_lost, assert_small_and_without_pickle, greedy_response

pytestmark = [pytest.mark.integration, needs_alfworld]

DIRECTORY = embedded_model_path("ALFWorldTiny")


@pytest.fixture(autouse=True)
def no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ALFWORLD_DATA", raising=False)


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(DIRECTORY)


def test_the_family_is_made_by_name() -> None:
    env = make_env("ALFWorldTiny", max_steps=5)
    assert isinstance(env, ALFWorldTiny)
    _, info = env.reset(options={"task": 3})
    assert info["task_type"] == "pick_and_place_simple" and "anchor_state" in info
    assert sum(command.startswith("go to ") for command in info["admissible_actions"]) == 3
    env.close()


def test_the_expert_wins_what_it_is_made_for_and_knows_its_limits() -> None:
    env = ALFWorldTiny()
    for task in range(8):
        _, info = env.reset(options={"task": task})
        expert = Expert(info["task_description"], info["admissible_actions"])
        ended = False
        while not ended:
            command = expert.actions()[-1]
            _, reward, terminated, truncated, info = env.step(command)
            assert info["is_action_valid"]
            expert.follow(command, info["admissible_actions"])
            ended = terminated or truncated
        assert info["won"] and reward == 10.0
        assert expert.thought().endswith("here.")
    env.close()
    with pytest.raises(ValueError, match="task is 'put two mug in cabinet'"):
        Expert("put two mug in cabinet", [])


def test_an_expert_puts_down_what_is_not_wanted_and_does_not_search_the_destination() -> None:
    expert = Expert("put a mug in shelf", ["go to bed 1", "go to shelf 1"])
    expert.follow("go to shelf 1", ["examine shelf 1", "go to bed 1", "open shelf 1"])
    assert expert.situation() == ("missing", "here") and expert.actions() == ["go to bed 1"]
    expert.follow("take pen 1 from bed 1", ["examine pen 1", "go to bed 1", "move pen 1 to shelf 1"])
    assert expert.actions() == ["move pen 1 to shelf 1"]
    assert expert.thought() == "The mug is missing, the shelf here."


def test_demonstrations_repeat_choose_from_the_prompt_and_end_it_with_the_task() -> None:
    def rows(seed: int) -> list[tuple[str, str]]:
        shares = {"played_by_expert": 0.5, "shown_by_expert": 1.0}
        return list(demonstrations(game, ALFWORLD_TINY.agent_format, episodes=2, seed=seed, **shares))

    assert rows(0) == rows(0) != rows(1)
    for user_message, response in rows(0):
        commands, task = user_message.splitlines()
        parsed = think_action(response)
        assert parsed.is_valid and parsed.action in commands.split("; ")
        assert task.startswith("Task: put ")


def test_the_prompt_is_what_can_be_done_without_commands_that_tell_nothing_and_the_task() -> None:
    prompt = PromptTemplate(ALFWORLD_TINY.agent_format.prompt_template)
    commands = ["examine mug 1", "go to shelf 1", "help", "inventory", "look"]
    shown = prompt.render(
        observation="Nothing happens.", history=(), step=2, task="put a mug in shelf", admissible_actions=commands
    )
    assert shown == "examine mug 1; go to shelf 1\nTask: put a mug in shelf."


def test_the_model_is_small_and_its_prompts_are_short(tokenizer: PreTrainedTokenizerBase) -> None:
    assert ALFWORLD_TINY.embedded_model == DIRECTORY
    assert_small_and_without_pickle(DIRECTORY)
    rows = list(demonstrations(game, ALFWORLD_TINY.agent_format, episodes=4, played_by_expert=0.5, seed=7))
    assert max(len(encode_prompt(tokenizer, user_message)) for user_message, _ in rows) < 80
    assert max(len(tokenizer.encode(response)) for _, response in rows) < 32
    assert_nothing_is_lost(tokenizer, (text for row in rows for text in row))


def test_the_model_answers_in_the_environments_format(tokenizer: PreTrainedTokenizerBase) -> None:
    model = AutoModelForCausalLM.from_pretrained(DIRECTORY)
    prompt = PromptTemplate(ALFWORLD_TINY.agent_format.prompt_template)
    env = ALFWorldTiny()
    for task in range(4):
        observation, info = env.reset(options={"task": task})
        expert = Expert(info["task_description"], info["admissible_actions"])
        user_message = prompt.render(
            observation=observation,
            history=(),
            step=0,
            task=info["task_description"],
            admissible_actions=info["admissible_actions"],
        )
        response = greedy_response(model, tokenizer, user_message)
        parsed = think_action(response)
        assert parsed.is_valid and parsed.action in info["admissible_actions"], response
        assert response.startswith(f"<think>{expert.thought()}</think>")
    env.close()
