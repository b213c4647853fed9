"""The embedded model of Nim: it answers in the format, reads the number of stones, and knows nothing of how to win."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from rllib_gigpo.agent_formats import PromptTemplate, encode_prompt, think_action
from rllib_gigpo.env_adapters import embedded_model_path, make_env
from rllib_gigpo.env_adapters.demonstrations import demonstrations
from rllib_gigpo.env_adapters.multi_agent import NIM
from rllib_gigpo.env_adapters.multi_agent.embedded_nim import game
from rllib_gigpo.env_adapters.multi_agent.nim import Nim
from rllib_gigpo.env_adapters.multi_agent.nim_rules import moves
from tests.embedded_model_cases import assert_nothing_is_lost, assert_small_and_without_pickle, greedy_response

pytestmark = pytest.mark.integration

DIRECTORY = embedded_model_path("Nim")


def prompt(stones: int) -> str:
    possible = moves(stones, most_taken=3)
    template = PromptTemplate(NIM.agent_format.prompt_template)
    return template.render(observation=f"Stones: {stones}", history=(), step=0, admissible_actions=possible)


def test_environment_and_model_are_found_by_name() -> None:
    assert isinstance(make_env("Nim", max_steps=5), Nim)
    assert NIM.embedded_model == DIRECTORY
    assert_small_and_without_pickle(DIRECTORY)


def test_nothing_is_lost_in_its_tokenizer() -> None:
    tokenizer = AutoTokenizer.from_pretrained(DIRECTORY)
    rows = list(demonstrations(game, NIM.agent_format, episodes=10, played_by_expert=0.0, seed=7))
    assert max(len(encode_prompt(tokenizer, user_message)) for user_message, _ in rows) < 90
    assert_nothing_is_lost(tokenizer, (text for row in rows for text in row))


def test_it_reads_every_number_and_prefers_no_move() -> None:
    model, tokenizer = AutoModelForCausalLM.from_pretrained(DIRECTORY), AutoTokenizer.from_pretrained(DIRECTORY)
    for stones in (2, 7, 12, 19):
        response = greedy_response(model, tokenizer, prompt(stones))
        assert response.startswith(f"<think>{stones} are left.</think>"), response
        assert think_action(response).action in moves(stones, most_taken=3)
        begun = f"<think>{stones} are left.</think><action>take "
        ids = [*encode_prompt(tokenizer, prompt(stones)), *tokenizer.encode(begun.rstrip(), add_special_tokens=False)]
        space = tokenizer.encode(" ", add_special_tokens=False)
        with torch.no_grad():
            probs = model(torch.tensor([[*ids, *space]])).logits[0, -1].softmax(-1).numpy()
        numbers = [tokenizer.encode(str(n), add_special_tokens=False)[0] for n in range(1, min(3, stones) + 1)]
        shares = probs[numbers]
        # Uniform, as in what it was shown, to within what some hundred rows a number leave open.
        assert np.abs(shares - 1 / len(numbers)).max() < 0.15, (stones, shares)
