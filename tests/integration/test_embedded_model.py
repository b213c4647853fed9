"""The embedded model of EZPoints, and the platform's means to build one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from rllib_gigpo.agent_formats import PromptTemplate, encode_prompt, think_action
from rllib_gigpo.env_adapters import embedded_model_path, make_env
from rllib_gigpo.env_adapters.gym_cards import EZPOINTS
from rllib_gigpo.env_adapters.gym_cards.embedded_ezpoints import demonstrations
from rllib_gigpo.env_adapters.gym_cards.ezpoints import EZPoints
from rllib_gigpo.rl_modules.embedded import build_causal_lm, build_tokenizer, save_model, warm_start
from tests.embedded_model_cases import assert_small_and_without_pickle, greedy_response

pytestmark = pytest.mark.integration

DIRECTORY = embedded_model_path("EZPoints")


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(DIRECTORY)


@pytest.fixture(scope="module")
def model() -> PreTrainedModel:
    return AutoModelForCausalLM.from_pretrained(DIRECTORY)


def test_environment_and_model_are_found_by_name() -> None:
    assert isinstance(make_env("EZPoints", max_steps=5), EZPoints)
    assert EZPOINTS.embedded_model == DIRECTORY


def test_the_directory_is_small_and_holds_float32_and_no_pickle() -> None:
    assert_small_and_without_pickle(DIRECTORY)


def test_the_weights_have_heads_that_vllm_takes(model: PreTrainedModel) -> None:
    assert model.config.model_type == "qwen2"
    assert model.config.hidden_size // model.config.num_attention_heads >= 32


def test_the_tokenizer_encodes_any_text_without_loss(tokenizer: PreTrainedTokenizerBase) -> None:
    for text in [
        "Numbers: 10 2. Formula: 10 +",
        "<think>a</think><action>10</action>",
        " a\n\n\tb  ",
        "Größe ≠ 漢字 🂡",
    ]:
        ids = tokenizer.encode(text, add_special_tokens=False)
        assert tokenizer.decode(ids) == text
        assert tokenizer.decode(ids, skip_special_tokens=True) == text, "tags must survive"


def test_tags_are_one_token_and_special_tokens_are_set(tokenizer: PreTrainedTokenizerBase) -> None:
    for tag in ("<think>", "</think>", "<action>", "</action>", "<|im_start|>", "<|im_end|>", "<|endoftext|>"):
        assert len(tokenizer.encode(tag, add_special_tokens=False)) == 1
    assert (tokenizer.eos_token, tokenizer.pad_token) == ("<|im_end|>", "<|endoftext|>")


def test_config_and_tokenizer_agree(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    assert model.config.vocab_size == len(tokenizer)
    for config in (model.config, model.generation_config):
        assert (config.eos_token_id, config.pad_token_id) == (tokenizer.eos_token_id, tokenizer.pad_token_id)


def test_the_chat_template_is_qwens(tokenizer: PreTrainedTokenizerBase) -> None:
    messages = [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "u"},
        {"role": "assistant", "content": "a"},
    ]
    text = tokenizer.apply_chat_template(messages, tokenize=False)
    assert (
        text == "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\nu<|im_end|>\n<|im_start|>assistant\na<|im_end|>\n"
    )


def test_the_loaded_tokenizer_splits_texts_as_the_one_that_was_trained(tokenizer: PreTrainedTokenizerBase) -> None:
    # AutoTokenizer may put another pre-tokenizer in the place of the file's, and then merges are never used.
    trained = Tokenizer.from_file(str(DIRECTORY / "tokenizer.json"))
    for user_message, response in demonstrations(episodes=8, expert_probability=0.5, seed=0):
        for text in (user_message, response):
            assert tokenizer.encode(text) == trained.encode(text).ids
        # One token a word: the prompt is worth its price only while its words are known.
        assert len(encode_prompt(tokenizer, user_message)) < 70


def test_the_model_answers_in_the_environments_format(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> None:
    prompt = PromptTemplate(EZPOINTS.agent_format.prompt_template)
    env = EZPoints()
    for task in range(4):
        observation, info = env.reset(options={"task": task})
        response = greedy_response(model, tokenizer, prompt.render(observation=observation, history=(), step=0))
        parsed = think_action(response)
        assert parsed.is_valid and parsed.action in info["admissible_actions"], response


def test_a_build_depends_on_its_seed_and_leaves_torchs_generator_alone() -> None:
    tokenizer = build_tokenizer(["a b c"])
    before = torch.get_rng_state()
    first, again, other = (build_causal_lm(tokenizer, seed=seed, hidden_size=32, num_layers=1) for seed in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), before)
    embeddings = [m.get_input_embeddings().weight for m in (first, again, other)]
    assert torch.equal(embeddings[0], embeddings[1]) and not torch.equal(embeddings[0], embeddings[2])


def test_a_warm_start_is_deterministic_and_learns_responses_only(tmp_path: Path) -> None:
    tokenizer = build_tokenizer(["say yes", "say no", "yes", "no"])
    prompts = [encode_prompt(tokenizer, text) for text in ("say yes", "say no")]
    responses = [np.asarray([*tokenizer.encode(text), tokenizer.eos_token_id], np.int32) for text in ("yes", "no")]
    for name in ("first", "second"):
        model = build_causal_lm(tokenizer, seed=0, hidden_size=32, intermediate_size=64, num_layers=1)
        threads = torch.get_num_threads()
        losses = warm_start(model, prompts, responses, steps=80, learning_rate=2e-2, seed=0)
        assert torch.get_num_threads() == threads
        save_model(tmp_path / name, model, tokenizer)
    assert losses[0] > 3 and losses[-1] < 0.1
    first, second = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("first", "second"))
    assert first == second

    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "first")
    assert AutoTokenizer.from_pretrained(tmp_path / "first").get_vocab() == tokenizer.get_vocab()
    inputs = torch.from_numpy(np.concatenate([prompts[1], responses[1]])).long()[None]
    with torch.no_grad():
        logits = loaded(inputs).logits
    assert torch.equal(logits, model(inputs).logits)
    start = len(prompts[1])
    assert logits[0, start - 1 : -1].argmax(-1).tolist() == responses[1].tolist()
    # Prompt tokens took no part in the loss, so they are still guesses.
    prompt_loss = torch.nn.functional.cross_entropy(logits[0, : start - 1], inputs[0, 1:start])
    assert prompt_loss > 2


def test_wrong_arguments_are_refused() -> None:
    tokenizer = build_tokenizer(["a"])
    with pytest.raises(ValueError, match="hidden_size is 30"):
        build_causal_lm(tokenizer, seed=0, hidden_size=30)
    model = build_causal_lm(tokenizer, seed=0, hidden_size=32, num_layers=1)
    with pytest.raises(ValueError, match="0 prompts and 0 responses"):
        warm_start(model, [], [], steps=1, learning_rate=1e-3, seed=0)
