"""vLLM as any program uses it, without this package: log-probs of a prompt from a model directory, and with an adapter.

    python plain_vllm.py MODEL ADAPTER TOKEN_ID...

Prints two JSON lists, of the log-probs of the tokens behind the first: of the model, and with the adapter.
"""

from __future__ import annotations

import json
import sys


def main() -> None:
    from vllm import LLM, SamplingParams
    from vllm.lora.request import LoRARequest

    model, adapter, *ids = sys.argv[1:]
    prompt = [int(token) for token in ids]
    llm = LLM(
        model=model,
        dtype="float32",
        enforce_eager=True,
        enable_lora=True,
        max_model_len=128,
        max_num_seqs=2,
        kv_cache_memory_bytes=16 << 20,
    )
    params = SamplingParams(max_tokens=1, temperature=0.0, prompt_logprobs=0)
    for lora in (None, LoRARequest("exported", 1, adapter)):
        (output,) = llm.generate({"prompt_token_ids": prompt}, params, lora_request=lora, use_tqdm=False)
        later = zip(prompt[1:], output.prompt_logprobs[1:], strict=True)
        print(json.dumps([logprobs[token].logprob for token, logprobs in later]))


if __name__ == "__main__":
    main()
