"""The hf engine on a tiny random Qwen2: seeds, log-probs, endings, the gate, failures, and weight delivery."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from transformers.models.gpt2 import GPT2Config, GPT2LMHeadModel
from transformers.models.qwen2 import Qwen2Config, Qwen2ForCausalLM

from rllib_gigpo.inference.hf_engine import HFClient, HFEngine
from rllib_gigpo.inference.hf_sampler import _Row, sample_responses
from rllib_gigpo.inference.protocol import Generation, GenerationRequest, SamplingParams
from rllib_gigpo.rl_modules.weights import get_weights

pytestmark = pytest.mark.unit

POSITIONS = 64
LETTERS = "abcdefghijklmnopqrstuvwxyz"


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    """Byte-level BPE: one token a letter, one for "th", two for the bytes of "é"."""
    tokens = ["<pad>", "<eos>", "<eot>", *LETTERS, "Ã", "©", "th"]
    bpe = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=[("t", "h")]))
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token="<eos>", pad_token="<pad>")


@pytest.fixture(scope="module")
def model(tokenizer: PreTrainedTokenizerFast) -> Qwen2ForCausalLM:
    """Random weights large enough that the next token depends on the whole prompt; two end-of-sequence ids."""
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=POSITIONS,
        eos_token_id=tokenizer.convert_tokens_to_ids("<eot>"),
        attention_dropout=0.5,
    )
    model = Qwen2ForCausalLM(config)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(0, 0.3, generator=generator)
    # Training mode: the sampler has to turn dropout off itself.
    return model.train()


@pytest.fixture
def engine(model: Qwen2ForCausalLM, tokenizer: PreTrainedTokenizerFast) -> HFEngine:
    return HFEngine(model, tokenizer)


@pytest.fixture
def own_engine(model: Qwen2ForCausalLM, tokenizer: PreTrainedTokenizerFast) -> HFEngine:
    """An engine whose weights the test may change."""
    copy = Qwen2ForCausalLM(model.config)
    copy.load_state_dict(model.state_dict())
    return HFEngine(copy, tokenizer)


def make_requests(count: int, sampling: SamplingParams | None = None) -> list[GenerationRequest]:
    """Requests with prompts of 1 to 19 random letters."""
    rng = np.random.default_rng(3)
    return [
        GenerationRequest(
            prompt_ids=rng.integers(3, 29, size=1 + 7 * i % 19).astype(np.int32),
            seed=1000 + i,
            sampling=sampling or SamplingParams(max_response_tokens=24),
            order=(0, i),
        )
        for i in range(count)
    ]


async def ask(client: HFClient, request: GenerationRequest) -> Generation:
    async with client:
        return await client.generate(request)


def generate_all(engine: HFEngine, requests: list[GenerationRequest]) -> list[Generation]:
    async def run() -> list[Generation]:
        return await asyncio.gather(*[ask(client, r) for client, r in [(engine.client(), r) for r in requests]])

    return asyncio.run(run())


def full_forward_log_probs(model: Qwen2ForCausalLM, request: GenerationRequest, generation: Generation) -> torch.Tensor:
    """float32[R, V], tempered log-probs at the response tokens, of one plain pass without cache or padding."""
    ids = torch.from_numpy(np.concatenate([request.prompt_ids, generation.response_ids])).long()[None]
    with torch.no_grad():
        logits = model.eval()(input_ids=ids, use_cache=False).logits[0, len(request.prompt_ids) - 1 : -1]
    return (logits / (request.sampling.temperature or 1)).log_softmax(-1)


def at_response(log_probs: torch.Tensor, generation: Generation) -> np.ndarray:
    return log_probs.gather(1, torch.from_numpy(generation.response_ids).long()[:, None])[:, 0].numpy()


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


def test_each_end_of_sequence_id_ends_a_response_and_stays_in_it(
    engine: HFEngine, tokenizer: PreTrainedTokenizerFast
) -> None:
    eos = {tokenizer.convert_tokens_to_ids("<eos>"), tokenizer.convert_tokens_to_ids("<eot>")}
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


def test_a_stop_string_ends_a_response_with_the_token_that_completes_it(
    engine: HFEngine, tokenizer: PreTrainedTokenizerFast
) -> None:
    checked = 0
    for request in make_requests(16):
        free = generate_all(engine, [request])[0].response_ids.tolist()
        if len(free) < 12:
            continue
        stop = tokenizer.decode(free[6:9])
        if "\ufffd" in stop:
            continue
        end = next(n for n in range(1, len(free) + 1) if stop in tokenizer.decode(free[:n]))
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
    engine: HFEngine, tokenizer: PreTrainedTokenizerFast, tokens: str, stop: str, ends_after: int
) -> None:
    row = _Row(GenerationRequest(np.array([3]), 0, SamplingParams(max_response_tokens=100, stop=("never", stop))))
    for token in tokenizer.convert_tokens_to_ids(tokens.split()):
        row.append(token, -1.0, frozenset(), engine._decode)
    assert row.finish_reason == "stop" and len(row.ids) == ends_after


def test_stopping_with_the_last_allowed_token_counts_as_stop(engine: HFEngine) -> None:
    row = _Row(GenerationRequest(np.array([3]), 0, SamplingParams(max_response_tokens=2)))
    row.append(5, -1.0, frozenset({1}), engine._decode)
    row.append(1, -1.0, frozenset({1}), engine._decode)
    assert row.finish_reason == "stop"


def test_a_short_row_waits_at_the_end_of_the_models_positions(tokenizer: PreTrainedTokenizerFast) -> None:
    # GPT-2 has a table of learned positions: one beyond its end is an error, also in a row that has already ended.
    config = GPT2Config(vocab_size=len(tokenizer), n_positions=16, n_embd=8, n_layer=1, n_head=1, bos_token_id=None)
    config.eos_token_id = None
    engine = HFEngine(GPT2LMHeadModel(config), tokenizer)
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


def test_the_gate_waits_for_every_live_client_and_opens_when_one_leaves(engine: HFEngine) -> None:
    async def run() -> None:
        requests = make_requests(3)
        first, second, third = (engine.client() for _ in range(3))
        tasks = [asyncio.create_task(ask(first, requests[0])), asyncio.create_task(ask(second, requests[1]))]
        for _ in range(5):
            await asyncio.sleep(0)
        assert engine.stats.batches == 0, "the third client is live from its creation on"
        await third.__aexit__(None, None, None)
        assert engine.stats.batches == 1 and engine.stats.rows == 2
        await asyncio.gather(*tasks)

    asyncio.run(asyncio.wait_for(run(), timeout=30))


def test_coroutines_of_different_lengths_share_batches_to_the_end(engine: HFEngine) -> None:
    async def turns(client: HFClient, request: GenerationRequest, count: int) -> int:
        async with client:
            for turn in range(count):
                await client.generate(replace(request, seed=turn))
                await asyncio.sleep(0)
        return count

    async def run() -> list[int]:
        clients = [engine.client() for _ in range(3)]
        return await asyncio.gather(
            *[turns(c, r, n) for c, r, n in zip(clients, make_requests(3), [1, 2, 4], strict=True)]
        )

    for _ in range(2):  # The second asyncio.run has another loop.
        assert asyncio.run(asyncio.wait_for(run(), timeout=30)) == [1, 2, 4]
        stats = engine.take_stats()
        assert (stats.batches, stats.rows) == (4, 7)


def test_stats_count_and_start_again_when_taken(engine: HFEngine) -> None:
    requests = make_requests(4)
    generations = generate_all(engine, requests)
    taken = engine.take_stats()
    assert (taken.batches, taken.rows, taken.seconds > 0) == (1, 4, True)
    assert taken.prompt_tokens == sum(len(r.prompt_ids) for r in requests)
    assert taken.response_tokens == sum(len(g.response_ids) for g in generations)
    assert engine.stats.rows == 0 and taken.rows == 4


def test_large_batches_run_in_pieces_with_the_same_responses(
    engine: HFEngine, model: Qwen2ForCausalLM, tokenizer: PreTrainedTokenizerFast
) -> None:
    pieces = HFEngine(model, tokenizer, max_batch_rows=3)
    requests = make_requests(7)
    for whole, piece in zip(generate_all(engine, requests), generate_all(pieces, requests), strict=True):
        assert whole.response_ids.tolist() == piece.response_ids.tolist()
    assert pieces.stats.batches == 3 and pieces.stats.rows == 7
    with pytest.raises(ValueError, match="max_batch_rows is 0"):
        HFEngine(model, tokenizer, max_batch_rows=0)


class RecordingEngine(HFEngine):
    """Notes the order of rows in each batch."""

    def _sample_batch(self, requests: list[GenerationRequest]) -> list[Generation]:
        self.batches = [*getattr(self, "batches", []), [request.order for request in requests]]
        return super()._sample_batch(requests)


def test_rows_are_sorted_by_their_order_whoever_asks_first(
    model: Qwen2ForCausalLM, tokenizer: PreTrainedTokenizerFast
) -> None:
    recording = RecordingEngine(model, tokenizer, max_batch_rows=3)
    orders = [(1, 0), (0, 11), (0, 2), (1, 10), (0, 3)]
    requests = [replace(r, order=order) for r, order in zip(make_requests(5), orders, strict=True)]
    generations = generate_all(recording, requests)
    assert recording.batches == [[(0, 2), (0, 3), (0, 11)], [(1, 0), (1, 10)]]
    for request, generation in zip(requests, generations, strict=True):
        assert generation.response_ids.tolist() == generate_all(recording, [request])[0].response_ids.tolist()


def test_a_failure_reaches_every_waiting_client_with_its_cause(own_engine: HFEngine) -> None:
    good = get_weights(own_engine._model)
    own_engine.deliver({name: np.full_like(value, np.nan) for name, value in good.items()}, version=1)

    async def run() -> list[Generation | BaseException]:
        asked = [(own_engine.client(), request) for request in make_requests(3)]
        return await asyncio.gather(*[ask(*one) for one in asked], return_exceptions=True)

    failures = asyncio.run(run())
    assert len({id(failure) for failure in failures}) == 3
    for failure in failures:
        assert isinstance(failure, RuntimeError) and isinstance(failure.__cause__, FloatingPointError)
        assert "NaN" in str(failure)
    own_engine.deliver(good, version=2)
    assert [g.weights_version for g in generate_all(own_engine, make_requests(2))] == [2, 2]


def test_a_cancelled_client_does_not_hold_up_the_others(engine: HFEngine) -> None:
    async def run() -> None:
        requests = make_requests(3)
        clients = [engine.client() for _ in requests]
        first = asyncio.create_task(ask(clients[0], requests[0]))
        second = asyncio.create_task(ask(clients[1], requests[1]))
        await asyncio.sleep(0)
        first.cancel()
        # Asks before the cancelled coroutine has run again, when every call seems to wait.
        third = await ask(clients[2], requests[2])
        assert (await second).response_ids.size and third.response_ids.size
        assert first.cancelled() and engine.stats.rows == 2

    asyncio.run(asyncio.wait_for(run(), timeout=30))


def test_a_client_may_ask_again_after_a_cancelled_call(engine: HFEngine) -> None:
    async def run() -> None:
        request, other = make_requests(2)
        client, second = engine.client(), engine.client()
        async with client:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(client.generate(request), timeout=0.01)
            again = asyncio.create_task(client.generate(request))
            await asyncio.sleep(0)
            assert (await ask(second, other)).response_ids.size
            assert (await again).response_ids.size

    asyncio.run(asyncio.wait_for(run(), timeout=30))


def test_asking_twice_at_once_or_after_leaving_is_an_error(engine: HFEngine) -> None:
    async def run() -> None:
        request = make_requests(1)[0]
        client, second = engine.client(), engine.client()
        waiting = asyncio.create_task(client.generate(request))
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="already waits"):
            await client.generate(request)
        await ask(second, request)
        await waiting
        with pytest.raises(RuntimeError, match="has left"):
            await second.generate(request)
        await client.__aexit__(None, None, None)

    asyncio.run(asyncio.wait_for(run(), timeout=30))


def test_abort_clears_what_a_crashed_run_left(engine: HFEngine) -> None:
    request = make_requests(1)[0]
    stray = engine.client()
    with pytest.raises(asyncio.TimeoutError):
        asyncio.run(asyncio.wait_for(ask(engine.client(), request), timeout=0.01))
    engine.abort()
    assert generate_all(engine, [request])[0].response_ids.size
    with pytest.raises(RuntimeError, match="has left"):
        asyncio.run(ask(stray, request))

    async def abort_while_waiting() -> None:
        client, _never_asks = engine.client(), engine.client()
        waiting = asyncio.create_task(ask(client, request))
        await asyncio.sleep(0)
        engine.abort()
        with pytest.raises(RuntimeError, match="aborted"):
            await waiting

    asyncio.run(abort_while_waiting())


def test_delivered_weights_change_log_probs_and_version(own_engine: HFEngine) -> None:
    request = make_requests(1)[0]
    before = generate_all(own_engine, [request])[0]
    weights = {name: 0.5 * array for name, array in get_weights(own_engine._model).items()}
    for array in weights.values():
        array.flags.writeable = False  # As they come from Ray's object store.
    own_engine.deliver(weights, version=7)
    after = generate_all(own_engine, [request])[0]
    assert (before.weights_version, after.weights_version) == (0, 7)
    expected = full_forward_log_probs(own_engine._model, request, after)
    np.testing.assert_allclose(after.logp, at_response(expected, after), atol=1e-5)
    assert abs(before.logp[0] - after.logp[0]) > 1e-3


def test_bfloat16_weights_come_as_their_bits(own_engine: HFEngine) -> None:
    own_engine._model.to(torch.bfloat16)
    value = torch.linspace(0.5, 1.5, 32).bfloat16()
    bits = value.view(torch.uint16).numpy()
    own_engine.deliver({**get_weights(own_engine._model), "model.norm.weight": bits}, version=1)
    assert torch.equal(own_engine._model.get_parameter("model.norm.weight"), value)


def test_weights_that_do_not_fit_are_refused_whole(own_engine: HFEngine) -> None:
    good = {name: np.zeros_like(array) for name, array in get_weights(own_engine._model).items()}
    bad: dict[str, dict[str, Any]] = {
        r"missing \['model.norm.weight'\]": {n: v for n, v in good.items() if n != "model.norm.weight"},
        r"unknown \['model.extra'\]": {**good, "model.extra": np.zeros(1, np.float32)},
        r"norm.weight' has shape \(1,\), the model's has \(32,\)": {
            **good,
            "model.norm.weight": np.zeros(1, np.float32),
        },
    }
    for message, weights in bad.items():
        with pytest.raises(ValueError, match=message):
            own_engine.deliver(weights, version=1)
    assert own_engine.weights_version == 0
    parameters = own_engine._model.named_parameters()
    assert all(bool(p.any()) for n, p in parameters if not n.endswith("bias")), "nothing may be copied"


def test_weights_are_refused_while_a_client_is_open(own_engine: HFEngine) -> None:
    client = own_engine.client()
    weights = get_weights(own_engine._model)
    with pytest.raises(RuntimeError, match="1 clients are open"):
        own_engine.deliver(weights, version=1)
    asyncio.run(client.__aexit__(None, None, None))
    own_engine.deliver(weights, version=1)
    assert own_engine.weights_version == 1
