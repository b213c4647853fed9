"""The embedded vision-language models: what they are made of, what they read, and how their vision tower is taught."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer, PreTrainedTokenizerBase, Qwen2_5_VLForConditionalGeneration

from rllib_gigpo.agent_formats import PromptTemplate, think_action
from rllib_gigpo.agent_formats.chat import encode_prompt_with_images
from rllib_gigpo.agent_formats.image_marks import image_mark
from rllib_gigpo.algorithms.gigpo import GiGPOConfig
from rllib_gigpo.env_adapters import embedded_model_path, make_env
from rllib_gigpo.env_adapters.gym_cards import SMALL_PICTURES
from rllib_gigpo.env_adapters.gym_cards.embedded_cards_image import ezpoints_thought, number_line_thought
from rllib_gigpo.env_adapters.sokoban import EASY_PICTURES
from rllib_gigpo.env_adapters.sokoban.expert import thought
from rllib_gigpo.registry import environment
from rllib_gigpo.rl_modules.embedded import (
    NamedPicture,
    build_image_processor,
    build_tokenizer,
    build_vision_language_model,
    encode_picture_prompt,
    save_vision_language_model,
    teach_to_name,
)
from rllib_gigpo.vlm.image_processing import ImageProcessor, expand_placeholders
from tests.embedded_model_cases import assert_nothing_is_lost, assert_small_and_without_pickle

pytestmark = pytest.mark.integration

# Environment, its options, tokens of a picture, and what the model is to read there.
CASES: dict[str, tuple[dict[str, Any], int, Callable[[Any, dict[str, Any]], str]]] = {
    "EZPoints": (
        SMALL_PICTURES,
        4,
        lambda env, info: ezpoints_thought(tuple(info["Numbers"]), tuple(info["Formula"])),
    ),
    "NumberLine": (SMALL_PICTURES, 4, lambda env, info: number_line_thought(info["Target"], info["Current"])),
    "Sokoban": (EASY_PICTURES, 36, lambda env, info: thought(env.level.board, env.position)),
}
NAMES = sorted(CASES)


def directory_of(name: str) -> Path:
    return embedded_model_path(name, **CASES[name][0])


@pytest.mark.parametrize("name", NAMES)
def test_the_directory_is_small_holds_no_pickle_and_says_how_pictures_are_read(name: str) -> None:
    directory = directory_of(name)
    assert directory == environment(name).embedded_image_model
    assert_small_and_without_pickle(directory, more_files=["preprocessor_config.json"])
    assert json.loads((directory / "config.json").read_text())["architectures"] == [
        "Qwen2_5_VLForConditionalGeneration"
    ]


@pytest.mark.parametrize("name", NAMES)
def test_a_card_or_a_cell_is_a_token(name: str) -> None:
    options, num_tokens, _ = CASES[name]
    height, width, _ = make_env(name, **options).observation_space["image"].shape
    assert ImageProcessor(directory_of(name)).num_tokens(height, width) == num_tokens


def test_larger_pictures_are_made_as_small_as_the_model_reads_them() -> None:
    assert ImageProcessor(directory_of("EZPoints")).num_tokens(300, 300) == 4
    assert ImageProcessor(directory_of("Sokoban")).num_tokens(252, 252) == 36


@pytest.mark.parametrize("name", NAMES)
def test_the_model_was_warmed_up_on_the_prompts_of_the_rollout(name: str) -> None:
    options, num_tokens, _ = CASES[name]
    tokenizer = AutoTokenizer.from_pretrained(directory_of(name))
    message = PromptTemplate(environment(name).agent_format_of(options).prompt_template).render(
        observation="Formula: 10 +", image=image_mark(0), history=(), step=1
    )
    ids, shown = encode_prompt_with_images(tokenizer, message, 1)
    pad = tokenizer.convert_tokens_to_ids("<|image_pad|>")
    expanded = expand_placeholders(ids, [num_tokens], pad)
    assert shown == [0]
    assert (
        encode_picture_prompt(tokenizer, message.replace(image_mark(0), ""), num_tokens).tolist() == expanded.tolist()
    )
    assert_nothing_is_lost(
        tokenizer, [message.replace(image_mark(0), ""), "<think>Cards 10 2.</think><action>10</action>"]
    )


@pytest.mark.parametrize("name", NAMES)
def test_the_model_reads_the_picture_and_answers_in_the_format(name: str) -> None:
    options, _, reading = CASES[name]
    directory = directory_of(name)
    tokenizer = AutoTokenizer.from_pretrained(directory)
    model = Qwen2_5_VLForConditionalGeneration.from_pretrained(directory)
    env, right = make_env(name, **options), 0
    for task in range(8):
        observation, info = env.reset(options={"task": 10**6 + task})
        message = PromptTemplate(environment(name).agent_format_of(options).prompt_template).render(
            observation=observation["text"], history=(), step=0
        )
        response = greedy_response(model, tokenizer, ImageProcessor(directory), observation["image"], message)
        parsed = think_action(response)
        assert parsed.is_valid and parsed.action in info["admissible_actions"], response
        right += response.startswith(f"<think>{reading(env, info)}</think>")
    # Most readings are right, not all: see the model's README.
    assert right >= 5


def greedy_response(
    model: Qwen2_5_VLForConditionalGeneration,
    tokenizer: PreTrainedTokenizerBase,
    image_processor: ImageProcessor,
    picture: np.ndarray,
    message: str,
) -> str:
    """The most probable response to a picture and a message, token by token."""
    processed = image_processor.process(picture)
    num_tokens = image_processor.num_tokens(*picture.shape[:2])
    ids = torch.from_numpy(encode_picture_prompt(tokenizer, message, num_tokens)).long()[None]
    output = model.generate(
        input_ids=ids,
        attention_mask=torch.ones_like(ids),
        pixel_values=torch.from_numpy(processed.pixel_values),
        image_grid_thw=torch.from_numpy(processed.grid_thw)[None],
        mm_token_type_ids=(ids == model.config.image_token_id).int(),
        do_sample=False,
        max_new_tokens=48,
    )
    text: str = tokenizer.decode(output[0, ids.shape[1] :], skip_special_tokens=True)
    return text


def test_the_environments_options_choose_format_and_model() -> None:
    image = {"observation": "image"}
    sokoban = environment("Sokoban")
    assert sokoban.embedded_model_of({}) == sokoban.embedded_model != sokoban.embedded_model_of(image)
    assert (
        GiGPOConfig().environment("Sokoban").resolved_agent_format().prompt_template.startswith("Push every box onto")
    )
    shown = GiGPOConfig().environment("Sokoban", env_config=image).resolved_agent_format()
    assert "blue disc" in shown.prompt_template and "#" not in shown.prompt_template
    with pytest.raises(ValueError, match="'Blackjack' ships no embedded model for its pictures"):
        embedded_model_path("Blackjack", **image)


def test_a_vision_tower_learns_to_name_what_it_sees_and_nothing_else_changes(tmp_path: Path) -> None:
    tokenizer = build_tokenizer(["red and blue"], with_images=True)
    image_processor = build_image_processor(token_pixels=8, max_pixels=16 * 16)
    model = build_vision_language_model(tokenizer, seed=0, token_pixels=8, hidden_size=32, num_heads=2)
    # Four tokens: a blue one somewhere, the others red or, unnamed, whatever they are.
    pictures = []
    for blue in range(4):
        picture = np.zeros((16, 16, 3), np.uint8)
        picture[..., 0] = 200
        row, column = 8 * (blue // 2), 8 * (blue % 2)
        picture[row : row + 8, column : column + 8] = (0, 0, 200)
        words = ["b" if token == blue else "r" for token in range(4)]
        pictures.append(NamedPicture(picture, words))
    before = {name: weight.clone() for name, weight in model.model.language_model.state_dict().items()}
    losses = teach_to_name(model, tokenizer, image_processor, pictures, steps=60, learning_rate=1e-2, seed=0)
    assert losses[-1] < 0.05 < 0.5 < losses[0]
    assert all(torch.equal(before[name], weight) for name, weight in model.model.language_model.state_dict().items())
    with pytest.raises(ValueError, match="no pictures"):
        teach_to_name(model, tokenizer, image_processor, [], steps=1, learning_rate=1e-3, seed=0)

    save_vision_language_model(tmp_path, model, tokenizer, image_processor)
    again = Qwen2_5_VLForConditionalGeneration.from_pretrained(tmp_path)
    assert all(torch.equal(weight, again.state_dict()[name]) for name, weight in model.state_dict().items())
    assert ImageProcessor(tmp_path).num_tokens(16, 16) == 4


def test_sizes_that_do_not_fit_are_refused() -> None:
    tokenizer = build_tokenizer(["a"], with_images=True)
    with pytest.raises(ValueError, match="token_pixels is 7; it must be a multiple of 2"):
        build_vision_language_model(tokenizer, seed=0, token_pixels=7)
    with pytest.raises(ValueError, match="hidden_size is 30; it must be a multiple of num_heads, 4"):
        build_vision_language_model(tokenizer, seed=0, token_pixels=8, hidden_size=30)
