"""Agent formats in a training: the user's own parser and template, history, and what the model cannot read."""

import shutil

import numpy as np
import pytest

from rllib_gigpo.agent_formats import ParsedResponse, ResponseParserError
from rllib_gigpo.columns import PROMPT_IDS, RESPONSE_IDS
from rllib_gigpo.env_adapters import embedded_model_path
from tests.algorithm_cases import record_samples, small_config

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("ray_cluster")]


class _WrongOn:
    """A parser that does wrong on what a model writes, but not on what the config's check gives it."""

    def __init__(self, does_wrong):
        self.does_wrong = does_wrong

    def __call__(self, text):
        return self.does_wrong(text) if "Make" in text or "I have" in text else ParsedResponse("", False, "other")


def _raises(text):
    raise KeyError(text)


@pytest.mark.parametrize(
    ("does_wrong", "message"),
    [(str, r"returned .* it must return a ParsedResponse"), (_raises, r"raised KeyError: .* on the response")],
)
def test_a_response_parser_that_does_wrong_is_named(does_wrong, message):
    algo = small_config().agent_format(response_parser=_WrongOn(does_wrong)).build_algo()
    with pytest.raises(ResponseParserError, match=f"^response_parser=.*{message}"):
        algo.training_step()
    algo.stop()


@pytest.mark.parametrize(
    ("template", "message"),
    [
        # What no environment gives is found only when it is asked for.
        (
            "{{ task }} {{ observation }}",
            "cannot be rendered at step 0: it prints a value that this environment does not give",
        ),
        ("{{ observation.lines }}", "cannot be rendered at step 0: 'str object' has no attribute"),
        ("{{ observation }} {{ 1 / step }}", "cannot be rendered at step 0: division by zero"),
    ],
)
def test_a_template_that_cannot_be_rendered_is_named(template, message):
    algo = small_config().agent_format(prompt_template=template).build_algo()
    with pytest.raises(ValueError, match=f"prompt_template {message}"):
        algo.training_step()
    algo.stop()


def test_pictures_are_refused_by_a_model_that_reads_text_alone():
    config = small_config().environment("EZPoints", env_config={"observation": "image"})
    with pytest.raises(ValueError, match=r"^the environment shows arrays \('image'\).*would not see them"):
        config.build_algo()


@pytest.mark.parametrize("history_length", [2, "full"])
def test_a_prompt_shows_the_history_that_is_asked_for(history_length):
    config = small_config().agent_format(history_length=history_length).generation(max_prompt_tokens=400)
    algo = config.build_algo()
    episodes = record_samples(algo)
    algo.train()
    tokenizer = algo.env_runner.module.tokenizer
    for episode in episodes:
        for t in range(len(episode)):
            prompt = tokenizer.decode(episode.get_extra_model_outputs(PROMPT_IDS, t))
            assert prompt.count(" -> ") == (t if history_length == "full" else min(t, 2))
    assert max(map(len, episodes)) > 3
    algo.stop()


def test_a_thought_that_the_chat_template_has_begun_is_read_whole(tmp_path):
    directory = shutil.copytree(embedded_model_path("EZPoints"), tmp_path / "model")
    template = (directory / "chat_template.jinja").read_text()
    assert template.count("<|im_start|>assistant\n") == 1
    (directory / "chat_template.jinja").write_text(
        template.replace("<|im_start|>assistant\n", "<|im_start|>assistant\n<think>")
    )
    algo = small_config().language_model(model_path=str(directory)).build_algo()
    episodes = record_samples(algo)
    metrics = algo.train()["env_runners"]
    tokenizer = algo.env_runner.module.tokenizer
    responses = [tokenizer.decode(ids) for e in episodes for ids in e.get_extra_model_outputs(RESPONSE_IDS)]
    assert np.mean([not response.startswith("<think>") for response in responses]) > 0.9
    assert metrics["invalid_action_share"] < 0.5, metrics
    algo.stop()


def test_reasons_are_counted():
    algo = small_config().agent_format(response_parser="json_action").build_algo()
    metrics = algo.train()["env_runners"]
    assert metrics["invalid_action_share"] == 1.0
    assert metrics["invalid_reasons"] == {"no_json": 16 * 8}
    algo.stop()
