"""A tiny random Qwen2 behind the hf engine, requests to it, and what a plain forward pass makes of them."""

from __future__ import annotations

import asyncio
from functools import cache

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from transformers.models.qwen2 import Qwen2Config, Qwen2ForCausalLM

from rllib_gigpo.inference.hf_engine import HFClient, HFEngine
from rllib_gigpo.inference.protocol import Generation, GenerationRequest, SamplingParams

POSITIONS = 64
LETTERS = "abcdefghijklmnopqrstuvwxyz"


@cache
def letters_tokenizer() -> PreTrainedTokenizerFast:
    """Byte-level BPE: one token a letter, one for "th", two for the bytes of "é"."""
    tokens = ["<pad>", "<eos>", "<eot>", *LETTERS, "Ã", "©", "th"]
    bpe = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=[("t", "h")]))
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token="<eos>", pad_token="<pad>")


@cache
def random_qwen2() -> Qwen2ForCausalLM:
    """Random weights large enough that the next token depends on the whole prompt; two end-of-sequence ids."""
    tokenizer = letters_tokenizer()
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
    # Training mode, here and below: the sampler has to turn dropout off itself.
    return model.train()


def new_engine() -> HFEngine:
    """An engine over `random_qwen2()`, whose weights nobody may change."""
    return HFEngine(random_qwen2(), letters_tokenizer())


def new_own_engine() -> HFEngine:
    """An engine over a copy, whose weights the test may change."""
    model = Qwen2ForCausalLM(random_qwen2().config)
    model.load_state_dict(random_qwen2().state_dict())
    return HFEngine(model, letters_tokenizer())


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
        return await asyncio.gather(*[ask(engine.client(), request) for request in requests])

    return asyncio.run(run())


def full_forward_log_probs(model: Qwen2ForCausalLM, request: GenerationRequest, generation: Generation) -> torch.Tensor:
    """float32[R, V], tempered log-probs at the response tokens, of one plain pass without cache or padding."""
    ids = torch.from_numpy(np.concatenate([request.prompt_ids, generation.response_ids])).long()[None]
    with torch.no_grad():
        logits = model.eval()(input_ids=ids, use_cache=False).logits[0, len(request.prompt_ids) - 1 : -1]
    model.train()
    return (logits / (request.sampling.temperature or 1)).log_softmax(-1)


def at_response(log_probs: torch.Tensor, generation: Generation) -> np.ndarray:
    return log_probs.gather(1, torch.from_numpy(generation.response_ids).long()[:, None])[:, 0].numpy()
