"""The `vllm` engine with images: tokens, log-probs and weight delivery are the learner's, vision tower included."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
import torch

from rllib_gigpo.images import ImageStore
from rllib_gigpo.inference import weight_files
from rllib_gigpo.inference.hf_engine import HFEngine
from rllib_gigpo.inference.protocol import Generation, GenerationRequest, SamplingParams
from rllib_gigpo.inference.weights_probe import PROBE_TOLERANCE, Probe, probe_gap
from rllib_gigpo.rl_modules.causal_lm_facade import facade_spec
from rllib_gigpo.rl_modules.causal_lm_rl_module import causal_lm_spec
from rllib_gigpo.rl_modules.lora import LoraSettings
from rllib_gigpo.rl_modules.weights import get_weights, set_weights
from rllib_gigpo.rows import TokenRows
from tests.tiny_models import save_tiny_vlm
from tests.vision_cases import FIRST, SECOND, log_probs, plain_log_probs, prompt_of, random_image
from tests.vllm_cases import needs_vllm

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900), needs_vllm]

LORA = LoraSettings(rank=4, alpha=8.0)
TOLERANCE = PROBE_TOLERANCE["float32"]
KINDS = ["qwen2_5_vl", "qwen2_5_vl-lora", "qwen2_vl", "qwen3_vl"]
whole_weights = pytest.mark.parametrize("case", ["qwen2_5_vl"], indirect=True)


@dataclass
class Case:
    """An engine, and a learner's module with the weights that it should serve."""

    engine: Any
    module: Any
    version: int = 0
    first_weights: dict[str, np.ndarray] = field(init=False)

    def __post_init__(self) -> None:
        self.first_weights = get_weights(self.module.lm)

    def new_weights(self, seed: int) -> dict[str, np.ndarray]:
        """The learner's weights after an update: the first ones and noise, in the vision tower too."""
        rng = np.random.default_rng(seed)
        weights = {
            name: array + 0.1 * rng.standard_normal(array.shape).astype(np.float32)
            for name, array in self.first_weights.items()
        }
        set_weights(self.module.lm, weights)
        return weights

    def deliver(self, weights: dict[str, np.ndarray]) -> None:
        self.version += 1
        self.engine.deliver(weights, self.version)

    def probe_gap(self, probe: Probe | None = None) -> float:
        """Between engine and learner, by the module's own probe."""
        probe = probe or self.module.probe()
        learner = HFEngine(self.module.lm, self.module.tokenizer, model_inputs=self.module.model_inputs)
        return probe_gap(learner.probe(probe), self.engine.probe(probe))

    def requests(self) -> list[GenerationRequest]:
        """With one image, two, the same one twice, and none; one is longer than a block of the prefix cache."""
        store = ImageStore()
        wide, tall = store.add(random_image()), store.add(random_image(84, 56, seed=1))
        messages = [
            (f"{FIRST}look", [wide]),
            (f"before {FIRST} between {SECOND} after", [tall, wide]),
            (f"{FIRST}{SECOND}", [tall, tall]),
            (f"{FIRST}{'a long text ' * 16}", [wide]),
            ("no image", []),
        ]
        sampling = SamplingParams(max_response_tokens=12)
        prompts = [prompt_of(self.module, message, images) for message, images in messages]
        return [
            GenerationRequest(ids, 1000 + i, sampling, (0, i), images=images) for i, (ids, images) in enumerate(prompts)
        ]

    def generate(self, requests: list[GenerationRequest]) -> list[Any]:
        """Responses to all requests at once, and errors in their places."""

        async def ask(client: Any, request: GenerationRequest) -> Generation:
            async with client:
                return await client.generate(request)

        async def run() -> list[Any]:
            clients = [self.engine.client() for _ in requests]
            return await asyncio.gather(*map(ask, clients, requests), return_exceptions=True)

        return asyncio.run(run())

    def check(self) -> list[list[int]]:
        """Samples, and checks that log-probs are the learner's for the very tokens and pixels; returns the tokens."""
        requests = self.requests()
        generations, num_plain = self.generate(requests), 0
        for request, generation in zip(requests, generations, strict=True):
            row = TokenRows.from_lists(
                [request.prompt_ids], [generation.response_ids], [generation.logp], images=[request.images]
            )
            with torch.no_grad():
                np.testing.assert_allclose(generation.logp, log_probs(self.module, row).numpy(), rtol=0, atol=1e-4)
                # Transformers' forward pass does not take a response in which the model has written a placeholder.
                if self.module.lm.config.image_token_id not in generation.response_ids:
                    plain = plain_log_probs(self.module, row, 0)
                    np.testing.assert_allclose(generation.logp, plain.numpy(), rtol=0, atol=1e-4)
                    num_plain += 1
            assert generation.weights_version == self.version
        assert num_plain
        return [generation.response_ids.tolist() for generation in generations]


@pytest.fixture(scope="module", params=KINDS)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Case]:
    from rllib_gigpo.inference.vllm_engine import VLLMEngine
    from rllib_gigpo.inference.vllm_options import VLLMSettings
    from rllib_gigpo.inference.vllm_server import VLLMServer

    model_type, _, adapter = request.param.partition("-")
    directory = str(save_tiny_vlm(tmp_path_factory.mktemp(request.param), model_type=model_type))
    lora = LORA if adapter else None
    facade = facade_spec(causal_lm_spec(directory, lora=lora)).build()
    settings = VLLMSettings(
        directory,
        "float32",
        max_tokens=512,
        max_requests=16,
        lora_rank=LORA.rank if lora else None,
        architecture=facade.vllm_architecture(),
        adapts_vision_tower=True,
    )
    engine = VLLMEngine(VLLMServer(settings), facade, name="policy")
    yield Case(engine, causal_lm_spec(directory, lora=lora).build())
    engine.close()


def test_log_probs_are_the_learners_before_and_after_updates_of_tower_and_language_model(case: Case) -> None:
    before = case.check()
    assert case.probe_gap() <= TOLERANCE
    for seed in (1, 2):
        weights = case.new_weights(seed)
        assert any(".visual." in name for name in weights)
        assert case.probe_gap() > TOLERANCE
        case.deliver(weights)
        assert case.probe_gap() <= TOLERANCE
        after = case.check()
        assert all(old != new for old, new in zip(before, after, strict=True))
        before = after


@whole_weights
def test_a_new_tower_alone_is_served_for_pictures_that_the_engine_has_seen(case: Case) -> None:
    """Nothing of a picture or of a prompt is kept from the old one."""
    case.deliver(case.new_weights(3))
    case.check()
    weights = get_weights(case.module.lm)
    for name in weights:
        if ".visual." in name:
            weights[name] = case.first_weights[name]
    set_weights(case.module.lm, weights)
    assert case.probe_gap() > TOLERANCE
    case.deliver(weights)
    assert case.probe_gap() <= TOLERANCE
    case.check()


@whole_weights
@pytest.mark.parametrize("tensor", ["patch_embed.proj.weight", "blocks.1.mlp.down_proj.bias", "merger.mlp.2.weight"])
def test_the_picture_of_the_probe_finds_a_tower_that_broke_on_its_way(
    case: Case, tensor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = case.new_weights(4)
    broken = weights[f"model.visual.{tensor}"]
    tensor_of = weight_files.array_to_tensor
    with monkeypatch.context() as patch:
        patch.setattr(weight_files, "array_to_tensor", lambda array: tensor_of(0 * array if array is broken else array))
        case.deliver(weights)
    # A text alone does not look at the tower.
    text = case.module.probe().token_ids
    text = text[np.cumsum(text == case.module.lm.config.vision_end_token_id) > 0][1:]
    assert len(text) > 8 and case.probe_gap(Probe(text)) <= TOLERANCE
    assert case.probe_gap() > TOLERANCE
    case.deliver(weights)
    assert case.probe_gap() <= TOLERANCE


@whole_weights
def test_vllm_gets_a_placeholder_per_image_and_processes_each_distinct_one_once(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    case.deliver(case.new_weights(5))
    server, prompts = case.engine.server, []
    generate = server.generate

    def recording(prompt: Any, *arguments: Any) -> Any:
        prompts.append(prompt)
        return generate(prompt, *arguments)

    monkeypatch.setattr(server, "generate", recording)
    renderer = server._engine().renderer
    renderer.stat_mm_cache()
    case.check()
    placeholder = case.module.lm.config.image_token_id
    shown = [len(prompt.get("multi_modal_data", {}).get("image", ())) for prompt in prompts]
    assert shown == [prompt["prompt_token_ids"].count(placeholder) for prompt in prompts] == [1, 2, 2, 1, 0]
    # Of six images two are new: the rest are not even sent to the engine's process.
    counted = renderer.stat_mm_cache()
    assert (counted.queries, counted.queries - counted.hits) == (6, 2)


@whole_weights
def test_a_prompt_that_does_not_fit_its_images_is_refused_alone(case: Case) -> None:
    one, two, *_, text = case.requests()
    fewer, more = replace(two, images=one.images), replace(text, images=one.images)
    refused, other, served = case.generate([fewer, more, one])
    assert isinstance(served, Generation)
    with pytest.raises(ValueError, match=r"has 12 image tokens .* its 1 images take 6"):
        raise refused
    with pytest.raises(ValueError, match=r"has 0 image tokens .* its 1 images take 6"):
        raise other
