"""What the hf engine samples, on a tiny random Qwen2: seeds, log-probs, endings, and requests that it refuses."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers.models.gpt2 import GPT2Config, GPT2LMHeadModel

from rllib_gigpo.inference.hf_engine import HFEngine
from rllib_gigpo.inference.hf_sampler import _Row, sample_responses
from rllib_gigpo.inference.protocol import Generation, GenerationRequest, SamplingParams
from tests.hf_engine_cases import (
    LETTERS,
    ask,
    at_response,
    full_forward_log_probs,
    generate_all,
    letters_tokenizer,
    make_requests,
    new_engine,
)

pytestmark = pytest.mark.integration


@pytest.fixture
def engine() -> HFEngine:
    return new_engine()


@pytest.mark.parametrize("temperature", [1.0, 0.7, 0.0])
def test_log_probs_are_those_of_a_plain_forward_pass(engine: HFEngine, temperature: float) -> None:
    requests = make_requests(16, SamplingParams(max_response_tokens=24, temperature=temperature))
    for request, generation in zip(requests, generate_all(engine, requests), strict=True):
        assert generation.response_ids.dtype == np.int32 and generation.logp.dtype == np.float32
        expected = full_forward_log_probs(engine._model, request, generation)
        # float32 sums in another order: about 1e-6.
        np.testing.assert_allclose(generation.logp, at_response(expected, generation), atol=1e-5)
        if temperature == 0:
            assert generation.response_ids.tolist() == expected.argmax(-1).tolist()


@pytest.mark.parametrize(("top_k", "top_p"), [(3, 1.0), (0, 0.6), (5, 0.8)])
def test_truncated_log_probs_are_renormalised(engine: HFEngine, top_k: int, top_p: float) -> None:
    sampling = SamplingParams(max_response_tokens=12, temperature=1.5, top_k=top_k, top_p=top_p)
    requests = make_requests(8, sampling)
    for request, generation in zip(requests, generate_all(engine, requests), strict=True):
        probs = full_forward_log_probs(engine._model, request, generation).exp().numpy()
        for at, token in enumerate(generation.response_ids):
            left = np.argsort(-probs[at])[: top_k or None]
            mass = np.cumsum(probs[at][left]) / probs[at][left].sum()
            left = left[: int(np.searchsorted(mass, top_p)) + 1]
            assert token in left
            expected = np.log(probs[at][token] / probs[at][left].sum())
            assert float(generation.logp[at]) == pytest.approx(expected, abs=1e-5)


def test_a_response_does_not_depend_on_batch_mates_padding_or_order_of_asking(engine: HFEngine) -> None:
    requests = make_requests(12)
    together = generate_all(engine, requests)
    assert len({len(g.response_ids) for g in together}) > 3, "rows must end at different times"
    reversed_order = generate_all(engine, requests[::-1])[::-1]
    for request, first, second in zip(requests, together, reversed_order, strict=True):
        alone = generate_all(engine, [request])[0]
        assert first.response_ids.tolist() == second.response_ids.tolist() == alone.response_ids.tolist()
        assert first.logp.tolist() == second.logp.tolist(), "same batch after sorting by order"
        np.testing.assert_allclose(first.logp, alone.logp, atol=1e-5)


def test_rows_of_equal_prompts_differ_by_seed_alone(engine: HFEngine) -> None:
    first, other = make_requests(2)
    rows = [first, other, replace(first, seed=5), first, replace(other, seed=6)]
    got = [g.response_ids.tolist() for g in generate_all(engine, rows)]
    assert got[0] == got[3] and got[0] != got[2] and got[1] != got[4]
    assert got == [generate_all(engine, [row])[0].response_ids.tolist() for row in rows]


def test_rows_of_different_parameters_share_a_batch(engine: HFEngine) -> None:
    kinds = [
        SamplingParams(max_response_tokens=20, temperature=0),
        SamplingParams(max_response_tokens=5, top_k=3),
        SamplingParams(max_response_tokens=9, top_p=0.5),
    ]
    requests = [replace(r, sampling=kinds[i % 3]) for i, r in enumerate(make_requests(9))]
    together = generate_all(engine, requests)
    assert engine.stats.batches == 1
    for request, generation in zip(requests, together, strict=True):
        assert len(generation.response_ids) <= request.sampling.max_response_tokens
        assert generation.response_ids.tolist() == generate_all(engine, [request])[0].response_ids.tolist()


def test_each_end_of_sequence_id_ends_a_response_and_stays_in_it(engine: HFEngine) -> None:
    eos = {letters_tokenizer().convert_tokens_to_ids("<eos>"), letters_tokenizer().convert_tokens_to_ids("<eot>")}
    seen: set[int] = set()
    reasons: set[str] = set()
    for generation in generate_all(engine, make_requests(48)):
        *before, last = generation.response_ids.tolist()
        assert not eos & set(before)
        assert generation.finish_reason == ("stop" if last in eos else "length")
        assert last in eos or len(generation.response_ids) == 24
        reasons.add(generation.finish_reason)
        seen |= eos & {last}
    assert seen == eos and reasons == {"stop", "length"}


def test_a_stop_string_ends_a_response_with_the_token_that_completes_it(engine: HFEngine) -> None:
    checked = 0
    for request in make_requests(16):
        free = generate_all(engine, [request])[0].response_ids.tolist()
        if len(free) < 12:
            continue
        stop = letters_tokenizer().decode(free[6:9])
        if "\ufffd" in stop:
            continue
        end = next(n for n in range(1, len(free) + 1) if stop in letters_tokenizer().decode(free[:n]))
        stopped = generate_all(engine, [replace(request, sampling=replace(request.sampling, stop=("#", stop)))])[0]
        assert stopped.response_ids.tolist() == free[:end] and stopped.finish_reason == "stop"
        checked += 1
    assert checked >= 3


@pytest.mark.parametrize(
    ("tokens", "stop", "ends_after"),
    [
        ("t h e", "the", 3),
        ("a th e b", "the", 3),
        ("a th b", "t", 2),
        ("a Ã © b", "é", 3),
        ("a b <eos>", "<eos>", 3),
        (" ".join("x" * 30 + LETTERS), LETTERS, 56),
    ],
)
def test_stop_strings_are_found_across_tokens_and_bytes(
    engine: HFEngine, tokens: str, stop: str, ends_after: int
) -> None:
    row = _Row(GenerationRequest(np.array([3]), 0, SamplingParams(max_response_tokens=100, stop=("never", stop))))
    for token in letters_tokenizer().convert_tokens_to_ids(tokens.split()):
        row.append(token, -1.0, frozenset(), engine._decode)
    assert row.finish_reason == "stop" and len(row.ids) == ends_after


def test_stopping_with_the_last_allowed_token_counts_as_stop(engine: HFEngine) -> None:
    row = _Row(GenerationRequest(np.array([3]), 0, SamplingParams(max_response_tokens=2)))
    row.append(5, -1.0, frozenset({1}), engine._decode)
    row.append(1, -1.0, frozenset({1}), engine._decode)
    assert row.finish_reason == "stop"


def test_a_short_row_waits_at_the_end_of_the_models_positions() -> None:
    # GPT-2 has a table of learned positions: one beyond its end is an error, also in a row that has already ended.
    config = GPT2Config(
        vocab_size=len(letters_tokenizer()), n_positions=16, n_embd=8, n_layer=1, n_head=1, bos_token_id=None
    )
    config.eos_token_id = None
    engine = HFEngine(GPT2LMHeadModel(config), letters_tokenizer())
    engine._eos_token_ids = frozenset()
    requests = [replace(r, sampling=SamplingParams(max_response_tokens=12)) for r in make_requests(5)]
    requests = [replace(r, prompt_ids=np.full(4, 3 + i, dtype=np.int32)) for i, r in enumerate(requests)]
    # It ends early at the last position; four of five rows go on, so the batch is not shrunk.
    requests[2] = replace(requests[2], prompt_ids=np.full(12, 5), sampling=SamplingParams(max_response_tokens=4))
    generations = generate_all(engine, requests)
    assert [len(g.response_ids) for g in generations] == [12, 12, 4, 12, 12]


def test_requests_that_cannot_be_served_are_refused_alone(engine: HFEngine) -> None:
    good, other = make_requests(2)
    bad = {
        "65 positions.*max_position_embeddings=64": replace(good, prompt_ids=np.full(41, 3, dtype=np.int32)),
        "at least one token": replace(good, prompt_ids=np.array([], dtype=np.int32)),
        "ids from 3 to 99": replace(good, prompt_ids=np.array([3, 99], dtype=np.int32)),
        "seed is -1": replace(good, seed=-1),
        "seed is 18446744073709551616": replace(good, seed=2**64),
    }
    for message, request in bad.items():

        async def run(request: GenerationRequest = request) -> list[Generation | BaseException]:
            clients = [engine.client(), engine.client()]
            asked = [ask(clients[0], request), ask(clients[1], other)]
            return await asyncio.gather(*asked, return_exceptions=True)

        refused, served = asyncio.run(run())
        assert isinstance(refused, ValueError) and isinstance(served, Generation)
        with pytest.raises(ValueError, match=message):
            raise refused
    with pytest.raises(ValueError, match="max_position_embeddings=64"):
        sample_responses(
            engine._model,
            [replace(good, prompt_ids=np.full(41, 3, dtype=np.int32))],
            eos_token_ids=[1],
            pad_token_id=0,
            decode=engine._decode,
            device=torch.device("cpu"),
        )
