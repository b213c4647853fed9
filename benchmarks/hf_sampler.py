"""Our sampler beside `model.generate`: one turn of 64 rows on the CPU, sampled from the same prompts.

    python benchmarks/hf_sampler.py

Prints, per case, the best and median time of a turn for both, the ratio of the medians, and our tokens per second. Both
sample 24 tokens a row (no end-of-sequence id), so they do the same work. The runs alternate, so that other load on the
machine falls on both.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from transformers.models.qwen2 import Qwen2Config, Qwen2ForCausalLM

from rllib_gigpo.inference.hf_sampler import sample_responses
from rllib_gigpo.inference.protocol import GenerationRequest, SamplingParams

VOCABULARY = 400
RESPONSE_TOKENS = 24
PAD = 0


def main() -> None:
    """Times the cases and prints one line each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--prompt-tokens", type=int, default=60)
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)

    model = tiny_model()
    parameters = sum(parameter.numel() for parameter in model.parameters())
    print(
        f"{parameters:,} parameters, {arguments.rows} rows x ({arguments.prompt_tokens} + {RESPONSE_TOKENS}) tokens, "
        f"{arguments.threads} thread(s), {arguments.turns} turns"
    )
    for name, distinct in (
        ("every prompt its own", arguments.rows),
        ("8 rows a prompt (first turn)", arguments.rows // 8),
    ):
        prompts = make_prompts(arguments.rows, distinct, arguments.prompt_tokens)
        ours, theirs = alternate(
            partial(run_ours, model, prompts),
            partial(run_generate, model, prompts),
            arguments.turns,
        )
        speed = arguments.rows * RESPONSE_TOKENS / statistics.median(ours)
        print(
            f"{name:30} ours {describe(ours)}   generate {describe(theirs)}   "
            f"generate/ours {statistics.median(theirs) / statistics.median(ours):.2f}   {speed:,.0f} tokens/s"
        )


def tiny_model() -> Qwen2ForCausalLM:
    """The embedded tiny model's shape with random weights."""
    config = Qwen2Config(
        vocab_size=VOCABULARY,
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
        pad_token_id=PAD,
        eos_token_id=None,
    )
    return Qwen2ForCausalLM(config).eval()


def make_prompts(rows: int, distinct: int, tokens: int) -> list[np.ndarray]:
    """`rows` prompts int32[P] of up to `tokens` tokens (five lengths), of which `distinct` differ."""
    rng = np.random.default_rng(0)
    different = [rng.integers(1, VOCABULARY, size=tokens - 2 * (i % 5)).astype(np.int32) for i in range(distinct)]
    return [different[row * distinct // rows] for row in range(rows)]


def run_ours(model: Qwen2ForCausalLM, prompts: list[np.ndarray]) -> None:
    """One turn with `sample_responses`."""
    sampling = SamplingParams(max_response_tokens=RESPONSE_TOKENS)
    requests = [GenerationRequest(prompt, seed, sampling) for seed, prompt in enumerate(prompts)]
    sample_responses(
        model, requests, eos_token_ids=[], pad_token_id=PAD, decode=lambda ids: "", device=torch.device("cpu")
    )


def run_generate(model: Qwen2ForCausalLM, prompts: list[np.ndarray]) -> None:
    """The same turn with transformers, its log-probs taken from the scores."""
    width = max(map(len, prompts))
    input_ids = torch.full((len(prompts), width), PAD)
    for row, prompt in enumerate(prompts):
        input_ids[row, width - len(prompt) :] = torch.from_numpy(prompt)
    output = model.generate(
        input_ids=input_ids,
        attention_mask=(input_ids != PAD).long(),
        do_sample=True,
        top_k=0,
        max_new_tokens=RESPONSE_TOKENS,
        return_dict_in_generate=True,
        output_scores=True,
    )
    log_probs = torch.stack(output.scores, dim=1).log_softmax(-1)
    log_probs.gather(2, output.sequences[:, width:, None])


def alternate(ours: Callable[[], None], theirs: Callable[[], None], turns: int) -> tuple[list[float], list[float]]:
    """Seconds of each turn, both run in turns after one warm-up."""
    seconds: tuple[list[float], list[float]] = ([], [])
    for turn in range(turns + 1):
        for run, taken in zip((ours, theirs), seconds, strict=True):
            started = time.perf_counter()
            run()
            if turn:
                taken.append(time.perf_counter() - started)
    return seconds


def describe(seconds: list[float]) -> str:
    """Best and median, in milliseconds."""
    return f"{1e3 * min(seconds):4.0f} / {1e3 * statistics.median(seconds):4.0f} ms"


if __name__ == "__main__":
    main()
