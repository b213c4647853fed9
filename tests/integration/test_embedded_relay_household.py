"""The embedded model of RelayHousehold, and what it was warmed up on."""

from __future__ import annotations

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerBase

from rllib_gigpo.agent_formats import PromptTemplate, encode_prompt, think_action
from rllib_gigpo.env_adapters import embedded_model_path, make_env
from rllib_gigpo.env_adapters.demonstrations import demonstrations
from rllib_gigpo.env_adapters.household.expert import thought
from rllib_gigpo.env_adapters.household.layouts import OBJECTS
from rllib_gigpo.env_adapters.multi_agent import RELAY_HOUSEHOLD
from rllib_gigpo.env_adapters.multi_agent.embedded_relay_household import game
from rllib_gigpo.env_adapters.multi_agent.relay import FINDER_RECEPTACLES, HATCH, PLACER_RECEPTACLES
from rllib_gigpo.env_adapters.multi_agent.relay_household import RelayHousehold
from tests.embedded_model_cases import assert_nothing_is_lost, assert_small_and_without_pickle, greedy_response

pytestmark = pytest.mark.integration

DIRECTORY = embedded_model_path("RelayHousehold")


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(DIRECTORY)


def test_environment_and_model_are_found_by_name() -> None:
    assert isinstance(make_env("RelayHousehold", max_steps=5), RelayHousehold)
    assert RELAY_HOUSEHOLD.embedded_model == DIRECTORY
    assert_small_and_without_pickle(DIRECTORY)


def test_every_name_is_one_token_and_nothing_is_lost(tokenizer: PreTrainedTokenizerBase) -> None:
    for name in (*OBJECTS, *FINDER_RECEPTACLES, *PLACER_RECEPTACLES, HATCH):
        assert len(tokenizer.encode(f" {name}", add_special_tokens=False)) == 1
    rows = list(demonstrations(game, RELAY_HOUSEHOLD.agent_format, episodes=10, played_by_expert=0.7, seed=7))
    assert max(len(encode_prompt(tokenizer, user_message)) for user_message, _ in rows) < 90
    assert_nothing_is_lost(tokenizer, (text for row in rows for text in row))


def test_demonstrations_are_of_both_agents_and_the_task_is_the_last_thing_that_a_prompt_says() -> None:
    rows = list(demonstrations(game, RELAY_HOUSEHOLD.agent_format, episodes=3, played_by_expert=1.0, seed=0))
    destinations = {"finder": ("hatch",), "placer": PLACER_RECEPTACLES}
    seen = set()
    for user_message, _ in rows:
        (agent,) = (agent for agent in destinations if f"You are the {agent}." in user_message)
        assert user_message.splitlines()[-1].startswith("Task: put ")
        assert user_message.removesuffix(".").endswith(destinations[agent])
        seen.add(agent)
    assert seen == {"finder", "placer"}


def test_the_model_answers_both_agents_in_the_environments_format(tokenizer: PreTrainedTokenizerBase) -> None:
    model = AutoModelForCausalLM.from_pretrained(DIRECTORY)
    prompt = PromptTemplate(RELAY_HOUSEHOLD.agent_format.prompt_template)
    env = RelayHousehold()
    for task in range(2):
        observations, infos = env.reset(options={"task": task})
        place, wanted = env.relay._task.receptacle_of, env.relay._task.object_to_put
        fetched = [f"open {place[wanted]}"] if place[wanted] != "table" else []
        commands = [f"go to {place[wanted]}", *fetched, f"take {wanted} from {place[wanted]}", "go to hatch"]
        for command in [*commands, f"put {wanted} in hatch", "go to hatch"]:
            (agent,) = observations
            user_message = prompt.render(
                observation=observations[agent], history=(), step=0, task=infos[agent]["task_description"]
            )
            response = greedy_response(model, tokenizer, user_message)
            parsed = think_action(response)
            assert parsed.is_valid and parsed.action in infos[agent]["admissible_actions"], response
            assert response.startswith(f"<think>{thought(env.relay.rooms[agent])}</think>")
            observations, _, _, _, infos = env.step({agent: command})
