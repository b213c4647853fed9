"""What every engine promises, on both: tokens and log-probs, seeds, endings, refused requests, weight delivery."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
import torch

from rllib_gigpo.inference import weight_files
from rllib_gigpo.inference.hf_engine import HFEngine
from rllib_gigpo.inference.protocol import Generation, GenerationRequest, SamplingParams
from rllib_gigpo.inference.weights_probe import PROBE_TOLERANCE, Probe, probe_gap, probe_token_ids
from rllib_gigpo.rl_modules.causal_lm_facade import facade_spec
from rllib_gigpo.rl_modules.causal_lm_rl_module import causal_lm_spec
from rllib_gigpo.rl_modules.lora import LoraSettings
from rllib_gigpo.rl_modules.weights import get_weights, set_weights
from tests.tiny_models import save_tiny_model
from tests.vllm_cases import needs_vllm

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

VOCABULARY = 259
# Of vLLM's prefix cache: only whole blocks of it are shared between prompts.
CACHE_BLOCK = 128
SAMPLING = SamplingParams(max_response_tokens=24)
LORA = LoraSettings(rank=4, alpha=8.0)

KINDS = [
    pytest.param((engine, weights), id=f"{engine}-{weights}", marks=[needs_vllm] if engine == "vllm" else [])
    for engine in ("hf", "vllm")
    for weights in ("tied", "untied", "lora")
]
VLLM_KINDS = [kind for kind in KINDS if kind.id.startswith("vllm")]


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
        """The learner's weights after an update, one that is clearly visible: the first ones and noise. Updates do not
        add up, since logits that grow take their rounding along."""
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

    def probe_gap(self) -> float:
        """Between the engine and the learner."""
        probe = Probe(probe_token_ids(VOCABULARY))
        return probe_gap(HFEngine(self.module.lm, self.module.tokenizer).probe(probe), self.engine.probe(probe))

    def generate(self, requests: list[GenerationRequest]) -> list[Generation]:
        """Responses to all requests at once."""

        async def ask(client: Any, request: GenerationRequest) -> Generation:
            async with client:
                return await client.generate(request)

        async def run() -> list[Generation]:
            clients = [self.engine.client() for _ in requests]
            return await asyncio.gather(*map(ask, clients, requests))

        return asyncio.run(run())

    @torch.no_grad()
    def log_probs(self, request: GenerationRequest, generation: Generation) -> np.ndarray:
        """float32[R, V], the learner's at the response's tokens, by one plain pass over what the engine returned."""
        ids = torch.from_numpy(np.concatenate([request.prompt_ids, generation.response_ids])).long()[None]
        logits = self.module.lm.eval()(input_ids=ids, use_cache=False).logits[0, len(request.prompt_ids) - 1 : -1]
        return (logits / (request.sampling.temperature or 1)).log_softmax(-1).numpy()

    def check(self, requests: list[GenerationRequest]) -> list[Generation]:
        """Generates, and checks that tokens, log-probs and version are those of the learner's present weights."""
        generations = self.generate(requests)
        for request, generation in zip(requests, generations, strict=True):
            assert (generation.response_ids.dtype, generation.logp.dtype) == (np.int32, np.float32)
            expected = self.log_probs(request, generation)
            at_tokens = np.take_along_axis(expected, generation.response_ids[:, None].astype(np.int64), axis=1)[:, 0]
            # Sums of float32 in another order: about 1e-5. Other tokens or weights are whole units away.
            np.testing.assert_allclose(generation.logp, at_tokens, rtol=0, atol=1e-4)
            if request.sampling.temperature == 0:
                assert generation.response_ids.tolist() == expected.argmax(-1).tolist()
            assert generation.weights_version == self.version
        return generations


def _build(tmp_path_factory: pytest.TempPathFactory, kind: tuple[str, str]) -> Case:
    engine_name, weights = kind
    directory = save_tiny_model(
        tmp_path_factory.mktemp(f"{engine_name}-{weights}"), tie_word_embeddings=weights != "untied"
    )
    lora = LORA if weights == "lora" else None
    module = causal_lm_spec(str(directory), lora=lora).build()
    if engine_name == "hf":
        own = causal_lm_spec(str(directory), lora=lora).build()
        return Case(HFEngine(own.lm, own.tokenizer), module)
    from rllib_gigpo.inference.vllm_engine import VLLMEngine
    from rllib_gigpo.inference.vllm_options import VLLMSettings
    from rllib_gigpo.inference.vllm_server import VLLMServer

    facade = facade_spec(causal_lm_spec(str(directory), lora=lora)).build()
    settings = VLLMSettings(
        str(directory), "float32", max_tokens=512, max_requests=16, lora_rank=None if lora is None else lora.rank
    )
    return Case(VLLMEngine(VLLMServer(settings), facade, name="policy"), module)


@pytest.fixture(scope="module", params=KINDS)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Case]:
    case = _build(tmp_path_factory, request.param)
    yield case
    case.engine.close()


def requests_of(count: int, sampling: SamplingParams = SAMPLING, *, seed: int = 0) -> list[GenerationRequest]:
    """Requests with prompts of 1 to 19 random tokens."""
    rng = np.random.default_rng(seed)
    return [
        GenerationRequest(rng.integers(3, VOCABULARY, 1 + 7 * i % 19).astype(np.int32), 1000 + i, sampling, (0, i))
        for i in range(count)
    ]


@pytest.mark.parametrize("temperature", [1.0, 0.7, 0.0])
def test_log_probs_are_the_learners_for_the_very_tokens(case: Case, temperature: float) -> None:
    case.check(requests_of(12, replace(SAMPLING, temperature=temperature)))


def test_truncated_log_probs_are_renormalised(case: Case) -> None:
    requests = requests_of(8, replace(SAMPLING, top_k=5))
    for request, generation in zip(requests, case.generate(requests), strict=True):
        for expected, token, logp in zip(
            case.log_probs(request, generation), generation.response_ids, generation.logp, strict=True
        ):
            likely = np.sort(expected)[-5:]
            assert logp == pytest.approx(expected[token] - np.log(np.exp(likely).sum()), abs=1e-4)


def test_a_seed_gives_the_same_response_whatever_else_is_sampled(case: Case) -> None:
    requests = requests_of(12)
    together = [g.response_ids.tolist() for g in case.generate(requests)]
    assert [g.response_ids.tolist() for g in case.generate(requests[::-1])][::-1] == together
    assert [case.generate([one])[0].response_ids.tolist() for one in requests[:3]] == together[:3]
    same_prompt = [replace(requests[5], seed=seed) for seed in (0, 1, 2**31, 2**64 - 1)]
    assert len({tuple(g.response_ids) for g in case.generate(same_prompt)}) == 4


def test_a_response_ends_with_its_end_token_or_is_cut(case: Case) -> None:
    eos = case.module.tokenizer.eos_token_id
    generations = case.generate(requests_of(48, SamplingParams(max_response_tokens=80)))
    assert {g.finish_reason for g in generations} == {"stop", "length"}
    for generation in generations:
        ids = generation.response_ids.tolist()
        assert (ids[-1] == eos) == (generation.finish_reason == "stop")
        assert eos not in ids[:-1]
        assert len(generation.logp) == len(ids) <= 80
        assert generation.finish_reason == "stop" or len(ids) == 80


def test_a_stop_string_ends_a_response_and_its_tokens_stay(case: Case) -> None:
    (request,) = requests_of(1)
    (whole,) = case.generate([request])
    decode = case.module.tokenizer.decode
    # The tokens are bytes, of which some decode to a replacement character when they stand alone.
    pairs = [decode(whole.response_ids[i : i + 2]) for i in range(4, len(whole.response_ids) - 1)]
    at = 4 + next(i for i, pair in enumerate(pairs) if pair.isascii())
    stop = decode(whole.response_ids[at : at + 2])
    (stopped,) = case.generate([replace(request, sampling=replace(SAMPLING, stop=(stop,)))])
    assert stopped.finish_reason == "stop"
    ids = stopped.response_ids
    assert ids.tolist() == whole.response_ids[: len(ids)].tolist()
    assert stop in decode(ids) and stop not in decode(ids[:-1])


def test_requests_that_cannot_be_served_are_refused_alone(case: Case) -> None:
    good, other = requests_of(2)
    bad = {
        "531 positions.*max_position_embeddings=512|context of 531": replace(
            good, prompt_ids=np.full(507, 3, dtype=np.int32)
        ),
        "at least one token": replace(good, prompt_ids=np.array([], dtype=np.int32)),
        "ids from 3 to 999": replace(good, prompt_ids=np.array([3, 999], dtype=np.int32)),
        "seed is -1": replace(good, seed=-1),
    }
    for message, request in bad.items():

        async def run(request: GenerationRequest = request) -> list[Generation | BaseException]:
            async def ask(client: Any, request: GenerationRequest) -> Generation:
                async with client:
                    return await client.generate(request)

            clients = [case.engine.client(), case.engine.client()]
            return await asyncio.gather(ask(clients[0], request), ask(clients[1], other), return_exceptions=True)

        refused, served = asyncio.run(run())
        assert isinstance(served, Generation)
        with pytest.raises(ValueError, match=message):
            raise refused


def test_two_updates_in_a_row_are_served_and_proved(case: Case) -> None:
    # A prompt of more than a block of the prefix cache, asked before and after each update.
    long_prompt = np.random.default_rng(1).integers(3, VOCABULARY, CACHE_BLOCK + 40).astype(np.int32)
    requests = [*requests_of(6), GenerationRequest(long_prompt, 7, SAMPLING, (1, 0))]
    before = case.check(requests)
    for seed in (1, 2):
        case.deliver(case.new_weights(seed))
        assert case.probe_gap() <= PROBE_TOLERANCE["float32"]
        after = case.check(requests)
        assert any(a.response_ids.tolist() != b.response_ids.tolist() for a, b in zip(before, after, strict=True))
        before = after
    # A run that goes back to a checkpoint counts some versions again, of other weights.
    case.version -= 1
    case.deliver(case.new_weights(3))
    case.check(requests)


@pytest.mark.parametrize("case", VLLM_KINDS, indirect=True)
def test_a_sleeping_engine_is_woken_by_a_request_and_by_a_delivery(case: Case) -> None:
    """Sleep frees nothing on the CPU, but goes the same way."""
    case.engine.sleep(1)
    case.check(requests_of(3))
    case.engine.sleep(1)
    case.deliver(case.new_weights(4))
    assert not case.engine.server._is_asleep, "on a GPU there is no memory for what arrives"
    case.check(requests_of(3))
    if "lora" not in next(iter(get_weights(case.module.lm))):
        case.engine.sleep(2)
        with pytest.raises(RuntimeError, match="it lost them in sleep of level 2"):
            case.generate(requests_of(1))
        case.deliver(case.new_weights(5))
        case.check(requests_of(3))


def test_weights_that_do_not_fit_or_come_too_early_leave_the_old_ones_serving(case: Case) -> None:
    weights = get_weights(case.module.lm)
    name = next(iter(weights))
    wrong = {
        f"missing \\['{name}'\\]": {k: v for k, v in weights.items() if k != name},
        "unknown \\['what'\\]": {**weights, "what": weights[name]},
        f"{name}' has shape": {**weights, name: weights[name][:-1]},
    }
    for message, broken in wrong.items():
        with pytest.raises(ValueError, match=message):
            case.engine.deliver(broken, case.version + 1)

    client = case.engine.client()
    with pytest.raises(RuntimeError, match="1 clients are open"):
        case.engine.deliver(weights, case.version + 1)
    asyncio.run(client.__aexit__(None, None, None))
    with pytest.raises(RuntimeError, match="has left"):
        asyncio.run(client.generate(requests_of(1)[0]))
    case.check(requests_of(3))


@pytest.mark.parametrize("case", VLLM_KINDS, indirect=True)
@pytest.mark.parametrize("breakage", ["a tensor is missing", "a tensor has another type", "a stale file"])
def test_the_probe_finds_a_delivery_that_broke_on_its_way(
    case: Case, breakage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names and shapes are right when it is sent; what arrives is not what the learner has."""
    weights = case.new_weights(3)
    name = next(name for name in weights if "mlp.down_proj" in name)
    tensor_of = weight_files.array_to_tensor

    def as_bits(array: np.ndarray) -> torch.Tensor:
        is_it = array.shape == weights[name].shape and bool((array == weights[name]).all())
        return torch.from_numpy(array.view(np.int32)).float() if is_it else tensor_of(array)

    import safetensors.torch

    save_file = safetensors.torch.save_file

    def save_without(tensors: dict[str, torch.Tensor], path: Any, metadata: Any = None) -> None:
        last = list(tensors)[-1] if "lora" in name else name
        save_file({k: v for k, v in tensors.items() if k != last}, path, metadata)

    def save_stale(tensors: dict[str, torch.Tensor], path: Any, metadata: Any = None) -> None:
        old = {k: torch.zeros_like(v) for k, v in tensors.items()}
        save_file(old, path, {**metadata, "weights_version": "0"})

    with monkeypatch.context() as patch:
        if breakage == "a tensor has another type":
            patch.setattr(weight_files, "array_to_tensor", as_bits)
        else:
            save = save_without if breakage == "a tensor is missing" else save_stale
            patch.setattr(safetensors.torch, "save_file", save)
        try:
            case.deliver(weights)
        except Exception as error:
            # Found even before the probe; then nothing is served but, of adapters, the old one.
            if "lora" not in name:
                assert "version 0, expected version" in str(error)
                with pytest.raises(RuntimeError, match="serves nothing until it gets weights"):
                    case.generate(requests_of(1))
            else:
                assert not case.probe_gap() <= PROBE_TOLERANCE["float32"]
        else:
            assert not case.probe_gap() <= PROBE_TOLERANCE["float32"]
    case.deliver(weights)
    assert case.probe_gap() <= PROBE_TOLERANCE["float32"]
    case.check(requests_of(3))


@needs_vllm
def test_a_request_names_a_module_that_there_is() -> None:
    from rllib_gigpo.inference.vllm_modules import VLLMRouter

    client = VLLMRouter({}).client()
    with pytest.raises(ValueError, match=r"module 'other' is unknown; there are \[\]"):
        asyncio.run(client.generate(replace(requests_of(1)[0], module_id="other")))
