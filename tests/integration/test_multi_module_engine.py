"""One gate before several modules: whoever waits for one of them keeps the others from sampling too early."""

import asyncio

import numpy as np
import pytest

from rllib_gigpo.inference.hf_engine import HFEngine
from rllib_gigpo.inference.multi_module_engine import MultiModuleEngine
from rllib_gigpo.inference.protocol import Generation, GenerationRequest, SamplingParams
from rllib_gigpo.rl_modules.causal_lm_rl_module import causal_lm_spec
from tests.tiny_models import save_tiny_model

pytestmark = pytest.mark.integration

SAMPLING = SamplingParams(max_response_tokens=4)


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> dict[str, HFEngine]:
    modules = {
        name: causal_lm_spec(str(save_tiny_model(tmp_path_factory.mktemp(name), seed=seed))).build()
        for name, seed in (("ANN", 0), ("BOB", 1))
    }
    return {name: HFEngine(module.lm, module.tokenizer) for name, module in modules.items()}


def request(module_id: str | None, member: int) -> GenerationRequest:
    prompt = np.arange(3, 9 + member).astype(np.int32)
    return GenerationRequest(prompt, seed=member, sampling=SAMPLING, order=(0, member), module_id=module_id)


def test_each_module_answers_its_own_requests_in_one_batch_each(engines: dict[str, HFEngine]) -> None:
    engine = MultiModuleEngine(engines)

    async def turns(member: int) -> list[Generation]:
        """Members with an odd number begin with the other module."""
        names = ["ANN", "BOB"] if member % 2 == 0 else ["BOB", "ANN"]
        async with clients[member]:
            return [await clients[member].generate(request(name, member)) for name in names]

    clients = [engine.client() for _ in range(4)]
    for one in engines.values():
        one.take_stats()

    async def run() -> list[list[Generation]]:
        return await asyncio.gather(*(turns(member) for member in (2, 0, 3, 1)))

    generations = dict(zip((2, 0, 3, 1), asyncio.run(run()), strict=True))
    stats = {name: one.take_stats() for name, one in engines.items()}
    # Two rounds; in each, two members ask one module and two the other.
    assert {name: (s.batches, s.rows) for name, s in stats.items()} == {"ANN": (2, 4), "BOB": (2, 4)}
    for member, (first, second) in generations.items():
        in_order = [first, second] if member % 2 == 0 else [second, first]
        for name, generation in zip(("ANN", "BOB"), in_order, strict=True):
            (alone,) = engines[name].sample([request(name, member)])
            np.testing.assert_array_equal(generation.response_ids, alone.response_ids)


def test_a_request_to_an_unknown_module_is_named(engines: dict[str, HFEngine]) -> None:
    engine = MultiModuleEngine(engines)

    async def ask() -> None:
        async with engine.client() as client:
            await client.generate(request("EVE", 0))

    with pytest.raises(ValueError, match=r"module 'EVE' is unknown; there are \['ANN', 'BOB'\]"):
        asyncio.run(ask())
