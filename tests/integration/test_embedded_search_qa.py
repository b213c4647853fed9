"""The embedded model of SearchQA: it answers in the format and reads questions and passages about anybody."""

from __future__ import annotations

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerBase

from rllib_gigpo.agent_formats import PromptTemplate, Turn, encode_prompt
from rllib_gigpo.env_adapters import embedded_model_path, make_env
from rllib_gigpo.env_adapters.demonstrations import demonstrations
from rllib_gigpo.env_adapters.generated_tasks import TASKS
from rllib_gigpo.env_adapters.search_qa import SEARCH_QA, TINY_OPTIONS
from rllib_gigpo.env_adapters.search_qa.embedded_search_qa import game, spaced_response
from rllib_gigpo.env_adapters.search_qa.expert import Search
from rllib_gigpo.env_adapters.search_qa.generated_questions import generated_question
from rllib_gigpo.env_adapters.search_qa.generated_world import world
from rllib_gigpo.env_adapters.search_qa.responses import search_or_answer
from tests.embedded_model_cases import assert_nothing_is_lost, assert_small_and_without_pickle, greedy_response

pytestmark = pytest.mark.integration

DIRECTORY = embedded_model_path("SearchQA")


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(DIRECTORY)


def test_it_is_found_by_name_small_and_without_pickle() -> None:
    assert SEARCH_QA.embedded_model == DIRECTORY
    assert_small_and_without_pickle(DIRECTORY)


def test_prompts_and_responses_are_short_and_nothing_is_lost(tokenizer: PreTrainedTokenizerBase) -> None:
    shares = {"episodes": 20, "played_by_expert": 0.5}
    rows = list(demonstrations(game, SEARCH_QA.agent_format, response=spaced_response, seed=7, **shares))
    assert max(len(encode_prompt(tokenizer, user_message)) for user_message, _ in rows) < 160
    assert max(len(tokenizer.encode(response)) for _, response in rows) < 32
    assert_nothing_is_lost(tokenizer, (text for row in rows for text in row))


def test_it_reads_about_people_whom_it_was_not_warmed_up_on(tokenizer: PreTrainedTokenizerBase) -> None:
    model = AutoModelForCausalLM.from_pretrained(DIRECTORY)
    prompt = PromptTemplate(SEARCH_QA.agent_format.prompt_template)
    env = make_env("SearchQA", hops=2, **TINY_OPTIONS)
    for task in range(TASKS, TASKS + 3):
        observation, info = env.reset(options={"task": task})
        search = Search(generated_question(info["task_description"], hops=2), world())
        history: list[Turn] = []
        for step in range(3):
            message = prompt.render(
                observation=observation,
                history=history,
                step=step,
                task=info["task_description"],
                admissible_actions=None,
            )
            response = greedy_response(model, tokenizer, message)
            assert response.startswith(f"<think> {search.thought()}</think>"), response
            assert search_or_answer(response).action in search.possible_actions(), response
            # Whatever it does, the expert leads on: so it is asked in every situation.
            action = search.expert_action()
            history.append(Turn(observation, action))
            observation, *_, info = env.step(action)
            search.looks_up(action)
        assert info["won"]
