"""The `vllm` engine on CUDA: it serves the learner's weights, samples with its log-probs, and sleeps and wakes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from ray.rllib.core.learner.learner_group import LearnerGroup

from rllib_gigpo.algorithms.group_policy.scoring import OLD_LOGP, score_rows
from rllib_gigpo.algorithms.group_policy.weight_delivery import prove_weights, take_weights
from rllib_gigpo.env_adapters import embedded_model_path
from rllib_gigpo.inference.protocol import Generation, GenerationRequest, SamplingParams
from rllib_gigpo.inference.weights_probe import probe_gap, probe_tolerance
from rllib_gigpo.rl_modules.causal_lm_facade import facade_spec
from rllib_gigpo.rl_modules.causal_lm_rl_module import causal_lm_spec
from rllib_gigpo.rl_modules.lora import LoraSettings
from rllib_gigpo.rl_modules.weights import set_weights
from rllib_gigpo.rows import TokenRows
from tests.gpu_cases import learner_on_gpu, module_of, perturb
from tests.learner_cases import weights_of
from tests.vllm_cases import needs_vllm

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(400), needs_vllm]

# Of the device's memory, for weights and cache: the learner's lies beside it.
SHARE = 0.3
# Mean difference of log-probs of sampled tokens, in nats; training warns from 0.1 on (`sampler_gap_warning`).
MEAN_GAP = {"float32": 1e-3, "bfloat16": 0.1}
# The same of weights with noise, which round worse. Weights that are stale or lost are whole units away.
MEAN_GAP_WITH_NOISE = {"float32": 1e-3, "bfloat16": 0.3}

Record = Callable[[str, object], None]


@dataclass
class Case:
    """An engine, and a learner whose weights it should serve."""

    engine: Any
    learner: LearnerGroup
    dtype: str
    has_adapter: bool
    version: int = 0
    first_weights: dict[str, np.ndarray] = field(init=False)

    def __post_init__(self) -> None:
        self.first_weights = weights_of(self.learner)

    def change_learner(self, seed: int) -> None:
        """Gives the learner clearly other weights: the first ones and noise."""
        set_weights(module_of(self.learner).lm, self.first_weights)
        perturb(module_of(self.learner), seed)

    def deliver(self) -> None:
        self.version += 1
        self.engine.deliver(take_weights(self.learner, by_reference=False).weights, self.version)

    def probe_gap(self) -> float:
        """Between the engine and the learner, as every delivery in training looks at it."""
        probe = take_weights(self.learner, by_reference=False).probe
        return probe_gap(prove_weights(self.learner), self.engine.probe(probe))

    def probe_tolerance(self) -> float:
        return probe_tolerance(self.dtype, prove_weights(self.learner))

    def generate(self, requests: list[GenerationRequest]) -> list[Generation]:
        """Responses to all requests at once."""

        async def ask(client: Any, request: GenerationRequest) -> Generation:
            async with client:
                return await client.generate(request)

        async def run() -> list[Generation]:
            clients = [self.engine.client() for _ in requests]
            return await asyncio.gather(*map(ask, clients, requests))

        return asyncio.run(run())

    def requests(self, count: int) -> list[GenerationRequest]:
        """Prompts of 16 to 135 random tokens."""
        rng = np.random.default_rng(0)
        vocabulary = module_of(self.learner).lm.config.vocab_size
        lengths = [16 + 17 * index % 120 for index in range(count)]
        prompts = [rng.integers(3, vocabulary, length).astype(np.int32) for length in lengths]
        sampling = SamplingParams(max_response_tokens=64)
        return [GenerationRequest(ids, 1000 + index, sampling, (0, index)) for index, ids in enumerate(prompts)]

    def log_prob_gaps(self, requests: list[GenerationRequest]) -> np.ndarray:
        """float32[M], of the M tokens of a rollout: what the sampler says and what the learner does."""
        generations = self.generate(requests)
        assert {generation.weights_version for generation in generations} == {self.version}
        rows = TokenRows.from_lists(
            [request.prompt_ids for request in requests],
            [generation.response_ids for generation in generations],
            [generation.logp for generation in generations],
        )
        scored = score_rows(self.learner, rows, [OLD_LOGP]).old_logp
        assert scored is not None
        return np.abs(scored - rows.rollout_logp)


@pytest.fixture(scope="module", params=["float32", "bfloat16", "bfloat16-lora"])
def case(request: pytest.FixtureRequest, model_directory: Path) -> Iterator[Case]:
    from vllm.platforms import current_platform

    from rllib_gigpo.inference.vllm_engine import VLLMEngine
    from rllib_gigpo.inference.vllm_options import VLLMSettings
    from rllib_gigpo.inference.vllm_server import VLLMServer

    assert current_platform.is_cuda(), "this vLLM is not the one for CUDA: pip install 'rllib-gigpo[vllm]'"
    dtype, lora = request.param.removesuffix("-lora"), None
    if request.param.endswith("-lora"):
        lora = LoraSettings(rank=16)
    directory = str(embedded_model_path("EZPoints") if dtype == "float32" else model_directory)
    settings = VLLMSettings(
        directory,
        dtype,
        max_tokens=512,
        max_requests=32,
        lora_rank=None if lora is None else lora.rank,
        sleeps=True,
        # Graphs take a minute to capture. One kind has them, as a user's engine does.
        options={"gpu_memory_utilization": SHARE, "enforce_eager": request.param != "bfloat16"},
    )
    engine = VLLMEngine(
        VLLMServer(settings), facade_spec(causal_lm_spec(directory, dtype=dtype, lora=lora)).build(), name="policy"
    )
    try:
        learner = learner_on_gpu(Path(directory), dtype=dtype, lora=lora, lr=1e-6)
        yield Case(engine, learner, dtype, has_adapter=lora is not None)
    finally:
        engine.close()


def test_weights_are_delivered_and_the_probe_tells_old_from_new(case: Case, record_property: Record) -> None:
    gaps = {"probe_gap_at_start": case.probe_gap()}
    stale = {}
    for seed in (1, 2):
        case.change_learner(seed)
        stale[f"probe_gap_{seed}_before_delivery"] = case.probe_gap()
        case.deliver()
        gaps[f"probe_gap_{seed}"] = case.probe_gap()
    for name, gap in (gaps | stale).items():
        record_property(name, gap)
    # A delivery in training stops the run above this.
    tolerance = case.probe_tolerance()
    assert max(gaps.values()) <= tolerance
    assert min(stale.values()) > tolerance


def test_log_probs_of_a_rollout_are_the_learners(case: Case, record_property: Record) -> None:
    set_weights(module_of(case.learner).lm, case.first_weights)
    case.deliver()
    requests = case.requests(32)
    gaps = case.log_prob_gaps(requests)
    record_property("logp_gap_mean", float(gaps.mean()))
    record_property("logp_gap_max", float(gaps.max()))
    assert gaps.mean() <= MEAN_GAP[case.dtype]

    first, again = case.generate(requests), case.generate(requests)
    equal = [a.response_ids.tolist() == b.response_ids.tolist() for a, b in zip(first, again, strict=True)]
    # A figure, no promise: which kernels a batch takes depends on what else is in it.
    record_property("equal_responses_to_equal_seeds", sum(equal) / len(equal))


def test_the_engine_sleeps_and_wakes(case: Case, record_property: Record) -> None:
    case.change_learner(4)
    case.deliver()
    requests = case.requests(8)
    free, total = torch.cuda.mem_get_info()
    case.engine.sleep(1)
    given_back = torch.cuda.mem_get_info()[0] - free
    record_property("given_back_of_its_share", given_back / (SHARE * total))
    assert given_back > 0.5 * SHARE * total

    # A request wakes it, with the weights that it had.
    assert case.log_prob_gaps(requests).mean() <= MEAN_GAP_WITH_NOISE[case.dtype]
    assert torch.cuda.mem_get_info()[0] < free + 0.5 * given_back

    case.engine.sleep(1)
    case.change_learner(5)
    case.deliver()
    assert case.log_prob_gaps(requests).mean() <= MEAN_GAP_WITH_NOISE[case.dtype]

    # At level 2 the weights are gone, of which an adapter's delivery brings none back.
    if not case.has_adapter:
        case.engine.sleep(2)
        with pytest.raises(RuntimeError, match="it lost them in sleep of level 2"):
            case.generate(requests[:1])
        case.deliver()
        assert case.log_prob_gaps(requests).mean() <= MEAN_GAP_WITH_NOISE[case.dtype]
