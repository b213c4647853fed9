"""The `vllm` engine: serves the weights of one module out of a `VLLMServer`, and takes requests as they come."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rllib_gigpo.images import StoredImage
from rllib_gigpo.inference.engine_stats import EngineStats
from rllib_gigpo.inference.free_clients import FreeClient, FreeClients
from rllib_gigpo.inference.protocol import FinishReason, Generation, GenerationRequest
from rllib_gigpo.inference.request_checks import check_request
from rllib_gigpo.inference.special_tokens import eos_token_ids
from rllib_gigpo.inference.vllm_server import VLLMServer
from rllib_gigpo.inference.weight_files import adapter_folder, weights_file
from rllib_gigpo.inference.weights_probe import Probe
from rllib_gigpo.rl_modules.lora import has_adapter
from rllib_gigpo.rl_modules.weights import check_weights

if TYPE_CHECKING:
    from vllm import RequestOutput, SamplingParams, TokensPrompt
    from vllm.lora.request import LoRARequest

    from rllib_gigpo.rl_modules.causal_lm_rl_module import CausalLMRLModule

# vLLM's seeds are signed, and -1 is none. (On the CPU, torch's generator looks at the last 32 bits only: two seeds of a
# group are alike by chance once in four billion.)
_SEED_BITS = 63


class VLLMEngine:
    """An `InferenceEngine` over a vLLM server.

    With an adapter in the model, weights are those of the adapter, and several engines may share a server; without one
    the server is this engine's alone.

    Args:
        server: Serves the model's directory.
        module: Whose weights are served; its own are not needed: a `CausalLMFacade` is enough.
        name: Of the module, for adapters.
    """

    in_lock_step = False

    def __init__(self, server: VLLMServer, module: CausalLMRLModule, *, name: str):
        self.weights_version = 0
        self.stats = EngineStats()
        self.server = server
        self._lm = module.lm
        self._with_placeholders = module.with_placeholders
        self._name = name
        self._eos_token_ids = sorted(eos_token_ids(module.lm, module.tokenizer))
        self._clients = FreeClients(self.sample)
        # A fresh adapter changes nothing, so the model without one is version 0.
        self._adapter: LoRARequest | None = None

    def client(self) -> FreeClient:
        """A new client, open from now on."""
        return self._clients.client()

    def abort(self) -> None:
        """Closes every client. What they waited for has ended with the coroutines that did."""
        self._clients.close_all()

    def close(self) -> None:
        """Ends the server's process."""
        self.server.close()

    def sleep(self, level: int) -> None:
        """Has the server give memory back; see `VLLMServer.sleep`."""
        self.server.sleep(level)

    def take_stats(self) -> EngineStats:
        """The statistics since the last call, which start again from zero; `batches` stays 0."""
        taken, self.stats = self.stats, EngineStats()
        return taken

    def check(self, request: GenerationRequest) -> None:
        """Raises ValueError where the engine cannot serve the request; see `check_request`."""
        check_request(self._lm, request, max_tokens=self.server.max_tokens)

    async def sample(self, request: GenerationRequest) -> Generation:
        """Samples one response; see `InferenceClient.generate`."""
        self.check(request)
        started = time.perf_counter()
        version = self.weights_version
        prompt = self._prompt(request.prompt_ids, request.images)
        output = await self.server.generate(prompt, self._sampling_params(request), self._adapter)
        _check_expansion(output, request.prompt_ids)
        generation = _generation(output, version)
        self.stats.rows += 1
        self.stats.prompt_tokens += len(request.prompt_ids)
        self.stats.response_tokens += len(generation.response_ids)
        self.stats.seconds += time.perf_counter() - started
        return generation

    def deliver(self, weights: dict[str, Any], version: int) -> None:
        """Takes new weights.

        Args:
            weights: An array for each weight, by name (`rllib_gigpo.rl_modules.weights`); with an adapter, of that.
            version: What every later `Generation` carries.

        Raises:
            RuntimeError: A client is open; the old weights are still served.
            ValueError: Names or shapes are not those of the model; the old weights are still served.
            EngineDied: The engine's process is gone.
            Exception: What vLLM raised. The old adapter is still served; without one, nothing until the next delivery.
        """
        if len(self._clients):
            raise RuntimeError(f"weights arrived while {len(self._clients)} clients are open: deliver between rollouts")
        check_weights(self._lm, weights)
        if has_adapter(self._lm):
            self._deliver_adapter(weights, version)
        else:
            with weights_file(weights, version) as path:
                self.server.load_weights(path, version)
        self.weights_version = version

    def probe(self, probe: Probe) -> np.ndarray:
        """Log-probs float32[n - 1] of the n tokens behind the first, by the engine's pass over a prompt."""
        from vllm import SamplingParams

        token_ids = probe.token_ids
        params = SamplingParams(max_tokens=1, temperature=0.0, prompt_logprobs=0, detokenize=False)
        output = self.server.generate_now(self._prompt(token_ids, probe.images), params, self._adapter)
        _check_expansion(output, token_ids)
        assert output.prompt_logprobs is not None
        later = zip(token_ids[1:].tolist(), output.prompt_logprobs[1:], strict=True)
        return np.array([logprobs[token].logprob for token, logprobs in later], np.float32)

    def _prompt(self, token_ids: np.ndarray, images: Sequence[StoredImage]) -> TokensPrompt:
        """What vLLM takes of ids int32[P] and their images: it expands placeholders itself, and knows images that it
        has seen by their keys."""
        if not images:
            return {"prompt_token_ids": token_ids.tolist()}
        return {
            "prompt_token_ids": self._with_placeholders(token_ids, images).tolist(),
            "multi_modal_data": {"image": [np.asarray(image) for image in images]},
            "multi_modal_uuids": {"image": [image.key for image in images]},
        }

    def _deliver_adapter(self, weights: Mapping[str, np.ndarray], version: int) -> None:
        with adapter_folder(self._lm, weights) as folder:
            adapter = self.server.load_adapter(folder, f"{self._name}-{version}")
        old, self._adapter = self._adapter, adapter
        if old is not None:
            self.server.drop_adapter(old)

    def _sampling_params(self, request: GenerationRequest) -> SamplingParams:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        sampling = request.sampling
        return SamplingParams(
            max_tokens=sampling.max_response_tokens,
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            stop=list(sampling.stop),
            stop_token_ids=self._eos_token_ids,
            seed=request.seed % 2**_SEED_BITS,
            logprobs=0,  # of the sampled token alone
            # Stop strings are sought in the text with special tokens, as the hf engine does; no text is needed else.
            skip_special_tokens=False,
            detokenize=bool(sampling.stop),
            output_kind=RequestOutputKind.FINAL_ONLY,
        )


def _check_expansion(output: RequestOutput, token_ids: np.ndarray) -> None:
    """Raises RuntimeError where vLLM has made another prompt than ids int32[P]."""
    if output.prompt_token_ids != token_ids.tolist():
        raise RuntimeError(
            f"the vllm engine made {len(output.prompt_token_ids or [])} tokens of a prompt of {len(token_ids)}: its "
            "images are other tokens there than they are to the learner"
        )


def _generation(output: RequestOutput, version: int) -> Generation:
    (sampled,) = output.outputs
    if sampled.finish_reason not in ("stop", "length"):
        raise RuntimeError(f"the vllm engine ended a request with finish_reason={sampled.finish_reason!r}")
    reason: FinishReason = "stop" if sampled.finish_reason == "stop" else "length"
    ids = list(sampled.token_ids)
    assert sampled.logprobs is not None
    logp = [logprobs[token].logprob for token, logprobs in zip(ids, sampled.logprobs, strict=True)]
    return Generation(np.array(ids, np.int32), np.array(logp, np.float32), reason, version)
