"""Rollouts of image environments: prompts with images, the hf engine, images stored once per group, token rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from rllib_gigpo.algorithms.gigpo import GiGPOConfig
from rllib_gigpo.columns import PROMPT_IDS, PROMPT_IMAGES
from rllib_gigpo.connectors.token_rows import STEP_ROWS, TOKEN_ROWS
from rllib_gigpo.env_adapters import make_env
from rllib_gigpo.env_runners.environment_pool import InlinePool
from rllib_gigpo.env_runners.group_rollout import GroupRollout
from rllib_gigpo.env_runners.rollout_plan import GroupPlan, RolloutPlan
from rllib_gigpo.images import IMAGE, StoredImage
from rllib_gigpo.inference.hf_engine import HFEngine
from rllib_gigpo.inference.protocol import GenerationRequest, SamplingParams
from rllib_gigpo.rl_modules.causal_lm_rl_module import CausalLMRLModule, causal_lm_spec
from rllib_gigpo.rows import TokenRows
from tests.tiny_models import save_tiny_vlm
from tests.vision_cases import image_rows, log_probs, plain_log_probs

pytestmark = pytest.mark.integration


PICTURE = 9  # tokens of the games' picture, 300 × 300 pixels, under the model's limit of 112 × 112


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_vlm(tmp_path_factory.mktemp("vlm"))


@pytest.fixture(scope="module")
def module(directory: Path) -> CausalLMRLModule:
    return causal_lm_spec(str(directory)).build()


def rollout_of(module: CausalLMRLModule, create: Any, directory: Path, **agent_format: Any) -> GroupRollout:
    config = GiGPOConfig().environment("EZPoints").language_model(model_path=str(directory))
    config.generation(max_prompt_tokens=400).agent_format(**agent_format)
    pool = InlinePool(create, 8)
    return GroupRollout(
        pool=pool,
        engine=HFEngine(module.lm, module.tokenizer, model_inputs=module.model_inputs),
        rl_module=module,
        env_to_module=config.build_env_to_module_connector(env=pool),
        module_to_env=config.build_module_to_env_connector(env=pool),
    )


def plan_of(num_groups: int) -> RolloutPlan:
    groups = tuple(GroupPlan(i, task=i, env_seed=i, sampling_seed=100 + i) for i in range(num_groups))
    return RolloutPlan(groups, group_size=4, min_group_size=2, sampling=SamplingParams(max_response_tokens=6))


def image_ezpoints() -> gym.Env:
    return make_env("EZPoints", observation="image", max_steps=3)


@pytest.mark.parametrize("model_type", ["qwen2_vl", "qwen2_5_vl", "qwen3_vl"])
def test_sampled_log_probs_are_those_of_plain_transformers(model_type: str, tmp_path: Path) -> None:
    module = causal_lm_spec(str(save_tiny_vlm(tmp_path, model_type=model_type))).build()
    rows = image_rows(module)
    prompts = [
        rows.token_ids[end - length : end - response]
        for end, length, response in zip(np.cumsum(rows.lengths), rows.lengths, rows.response_lengths, strict=True)
    ]
    requests = [
        # The same prompt twice, and rows that end early, so that the cache is shared, reordered and shrunk.
        GenerationRequest(prompts[row], seed, SamplingParams(max_response_tokens=4 + 3 * row), images=rows.images[row])
        for seed, row in enumerate((0, 0, 1, 2, 3, 4))
    ]
    engine = HFEngine(module.lm, module.tokenizer, model_inputs=module.model_inputs)
    together, num_compared = engine.sample(requests), 0
    for request, generation in zip(requests, together, strict=True):
        row = TokenRows.from_lists(
            [request.prompt_ids], [generation.response_ids], [generation.logp], images=[request.images]
        )
        # Transformers' forward pass does not take a response in which the model has written a placeholder itself.
        if module.lm.config.image_token_id not in generation.response_ids:
            with torch.no_grad():
                np.testing.assert_allclose(generation.logp, plain_log_probs(module, row, 0).numpy(), atol=1e-4)
            num_compared += 1
        with torch.no_grad():
            np.testing.assert_allclose(generation.logp, log_probs(module, row).numpy(), atol=1e-4)
        (alone,) = engine.sample([request])
        assert alone.response_ids.tolist() == generation.response_ids.tolist()
    assert num_compared >= 4


def test_a_group_stores_each_distinct_image_once(module: CausalLMRLModule, directory: Path) -> None:
    episodes = rollout_of(module, image_ezpoints, directory).run(plan_of(2))
    assert len(episodes) == 8
    for group in (episodes[:4], episodes[4:]):
        shown = [observation[IMAGE] for episode in group for observation in episode.get_observations()]
        assert all(isinstance(image, StoredImage) for image in shown)
        contents = {np.asarray(image).tobytes() for image in shown}
        assert len({id(image) for image in shown}) == len({image.key for image in shown}) == len(contents)
        assert len(contents) < len(shown)
        prompts = [images for episode in group for images in episode.get_extra_model_outputs(PROMPT_IMAGES)]
        assert prompts == [(obs[IMAGE],) for episode in group for obs in episode.get_observations()[:-1]]
    placeholder = module.lm.config.image_token_id
    for episode in episodes:
        assert all((ids == placeholder).sum() == PICTURE for ids in episode.get_extra_model_outputs(PROMPT_IDS))


def test_rows_refer_to_images_and_anchors_are_their_content(module: CausalLMRLModule, directory: Path) -> None:
    episodes = rollout_of(module, image_ezpoints, directory).run(plan_of(2))
    config = GiGPOConfig().training(anchor="observation")
    batch = config.build_group_connector()(rl_module=None, batch={}, episodes=episodes, shared_data={})
    rows, anchors = batch[TOKEN_ROWS], batch[STEP_ROWS].anchor_ids
    assert [images[0].key for images in rows.images] == [
        observation[IMAGE].key for episode in episodes for observation in episode.get_observations()[:-1]
    ]
    # The picture says all there is to say, so that the environment's own key makes the same groups.
    own = GiGPOConfig().training(anchor="anchor_state").build_group_connector()
    expected = own(rl_module=None, batch={}, episodes=episodes, shared_data={})[STEP_ROWS].anchor_ids
    np.testing.assert_array_equal(anchors, expected)
    assert len(set(anchors.tolist())) < len(anchors)


def test_a_prompt_is_what_the_chat_template_makes_of_image_and_text(module: CausalLMRLModule, directory: Path) -> None:
    image = np.zeros((28, 56, 3), np.uint8)
    rollout = rollout_of(
        module, lambda: Shows({"text": "a", "image": image}), directory, prompt_template="<{{ observation }}>"
    )
    ids = rollout.run(plan_of(1))[0].get_extra_model_outputs(PROMPT_IDS)[0]
    conversation = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "<a>"}]}]
    text = module.tokenizer.apply_chat_template(conversation, add_generation_prompt=True, tokenize=False)
    assert module.tokenizer.decode(ids) == text.replace("<|image_pad|>", "<|image_pad|><|image_pad|>")


def test_a_template_places_the_current_image_and_those_of_earlier_turns(
    module: CausalLMRLModule, directory: Path
) -> None:
    template = (
        "{% for turn in history %}{{ turn.image }}->{{ turn.action }};{% endfor %}now {{ image }}: {{ observation }}"
    )
    rollout = rollout_of(module, image_ezpoints, directory, prompt_template=template, history_length=1)
    episode = rollout.run(plan_of(1))[0]
    first, second, *_ = episode.get_observations()
    assert episode.get_extra_model_outputs(PROMPT_IMAGES)[:2] == [(first[IMAGE],), (first[IMAGE], second[IMAGE])]
    picture = "<|vision_start|>" + PICTURE * "<|image_pad|>" + "<|vision_end|>"
    text = module.tokenizer.decode(episode.get_extra_model_outputs(PROMPT_IDS)[1])
    assert f"{picture}->{episode.get_actions()[0]};now {picture}: Formula: " in text


class Shows(gym.Env):
    """Shows an observation, once."""

    observation_space = gym.spaces.Dict(
        {"text": gym.spaces.Text(99), "image": gym.spaces.Box(0, 255, (28, 56, 3), np.uint8)}
    )
    action_space = gym.spaces.Text(99)

    def __init__(self, observation: Any):
        self.observation = observation

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return self.observation, {}

    def step(self, action: str) -> Any:
        return self.observation, 0.0, True, False, {}


@pytest.mark.parametrize(
    ("observation", "message"),
    [
        ({"text": "", "image": np.zeros((28, 56, 3))}, "observation's 'image' .* not float64: scale it"),
        ({"text": "", "image": np.zeros((28, 56, 1), np.uint8)}, r"not of shape \(28, 56, 1\)"),
        ({"text": "", "image": np.zeros((0, 56, 3), np.uint8)}, "at least one pixel"),
        ({"image": np.zeros((28, 56, 3), np.uint8)}, r"the keys \['image'\]; one with an image must have"),
    ],
)
def test_a_bad_image_is_a_failure_of_its_environment(
    module: CausalLMRLModule, directory: Path, observation: Any, message: str
) -> None:
    rollout = rollout_of(module, lambda: Shows(observation), directory)
    assert rollout.run(plan_of(1)) == []
    assert rollout.take_counts()["env_failure_causes/EnvironmentAnswerError"] == 4
    assert rollout.last_failure is not None
    with pytest.raises(ValueError, match=message):
        raise ValueError(rollout.last_failure)


def test_an_image_drawn_into_the_same_array_is_another_image(module: CausalLMRLModule, directory: Path) -> None:
    class Redraws(Shows):
        def step(self, action: str) -> Any:
            self.observation["image"][:] = 255
            return super().step(action)

    create = lambda: Redraws({"text": "", "image": np.zeros((28, 56, 3), np.uint8)})  # noqa: E731
    episode = rollout_of(module, create, directory).run(plan_of(1))[0]
    assert [int(np.asarray(observation[IMAGE]).max()) for observation in episode.get_observations()] == [0, 255]


def test_text_that_looks_like_a_placeholder_is_spelled_out(module: CausalLMRLModule, directory: Path) -> None:
    observation = {"text": "<|image_pad|>\x00image 0\x00", "image": np.zeros((28, 56, 3), np.uint8)}
    episode = rollout_of(module, lambda: Shows(observation), directory).run(plan_of(1))[0]
    ids, images = (episode.get_extra_model_outputs(key)[0] for key in (PROMPT_IDS, PROMPT_IMAGES))
    # The mark in the text shows the same picture once more; nothing else can come of it.
    assert len(images) == 2 and (ids == module.lm.config.image_token_id).sum() == 4
    assert "<|image_pad|><|vision_start|>" in module.tokenizer.decode(ids)
