"""The `hf` engine: samples in this process with a Hugging Face model, one batch whenever every live client waits."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from rllib_gigpo.inference.engine_stats import EngineStats
from rllib_gigpo.inference.gate import BatchGate, HFClient
from rllib_gigpo.inference.hf_sampler import sample_responses
from rllib_gigpo.inference.protocol import Generation, GenerationRequest
from rllib_gigpo.inference.request_checks import check_request
from rllib_gigpo.inference.special_tokens import eos_token_ids
from rllib_gigpo.inference.weights_probe import Probe
from rllib_gigpo.rl_modules.model_inputs import ModelInputs, text_inputs
from rllib_gigpo.rl_modules.weights import set_weights

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


class HFEngine:
    """An `InferenceEngine` over a Hugging Face causal LM, with a deterministic gate (`BatchGate`)."""

    in_lock_step = True

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        model_inputs: ModelInputs = text_inputs,
        device: torch.device | str | None = None,
        max_batch_rows: int | None = None,
    ) -> None:
        """Shares the model, which stays the caller's; sampling puts it in eval mode.

        Args:
            model: Any causal LM with a KV cache.
            tokenizer: Gives end-of-sequence and padding ids, and the text in which stop strings are sought.
            model_inputs: What a forward pass takes of prompts.
            device: Where to move the model; None leaves it where it is.
            max_batch_rows: Larger batches run in pieces of this many rows, in order. None: never split.

        Raises:
            ValueError: `max_batch_rows` is below 1.
        """
        if max_batch_rows is not None and max_batch_rows < 1:
            raise ValueError(f"max_batch_rows is {max_batch_rows}; it must be at least 1, or None for no limit")
        self.weights_version = 0
        self.stats = EngineStats()
        self._model: PreTrainedModel = model if device is None else model.to(device)
        self._model_inputs = model_inputs
        self._max_batch_rows = max_batch_rows
        self._eos_token_ids = eos_token_ids(model, tokenizer)
        self._pad_token_id = _pad_token_id(model, tokenizer)
        self._decode = partial(tokenizer.decode, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        self._gate = BatchGate(self.sample, check=self.check)

    def client(self) -> HFClient:
        """A new client, live from now on: no batch runs before it asks or leaves."""
        return self._gate.client()

    def deliver(self, weights: dict[str, Any], version: int) -> None:
        """Copies new weights into the model, in place.

        Args:
            weights: An array for each weight, by name (`rllib_gigpo.rl_modules.weights`).
            version: What every later `Generation` carries.

        Raises:
            RuntimeError: A client is open.
            ValueError: Names or shapes are not those of the model. Nothing has been copied then.
        """
        if num_clients := self._gate.num_clients:
            raise RuntimeError(f"weights arrived while {num_clients} clients are open: deliver between rollouts")
        set_weights(self._model, weights)
        self.weights_version = version

    @torch.inference_mode()
    def probe(self, probe: Probe) -> np.ndarray:
        """Log-probs float32[n - 1] of the n tokens behind the first, by one plain forward pass."""
        ids = torch.as_tensor(probe.token_ids, dtype=torch.int64, device=self._model.device)
        rows = {
            "input_ids": ids[None],
            "attention_mask": torch.ones_like(ids)[None],
            "position_ids": torch.arange(len(ids), device=ids.device)[None],
            "images": [probe.images],
        }
        inputs = self._model_inputs(self._model.eval(), rows)
        logits = self._model(**inputs, use_cache=False).logits[0, :-1]
        return logits.float().log_softmax(dim=-1).gather(-1, ids[1:, None])[:, 0].cpu().numpy()

    def take_stats(self) -> EngineStats:
        """The statistics since the last call, which start again from zero."""
        taken, self.stats = self.stats, EngineStats()
        return taken

    def abort(self) -> None:
        """Closes every client, also those a crashed run left behind. Calls still waiting raise RuntimeError."""
        self._gate.abort()

    def sleep(self, level: int) -> None:
        """Raises ValueError: this engine's model stays where it is."""
        raise ValueError("the hf engine cannot give its memory back")

    def close(self) -> None:
        """Nothing runs outside of this process."""

    def check(self, request: GenerationRequest) -> None:
        """Raises ValueError where the model cannot serve the request; see `check_request`."""
        check_request(self._model, request)

    def sample(self, requests: list[GenerationRequest]) -> list[Generation]:
        """Samples a response to each request (at least one) at once, without the gate."""
        piece = self._max_batch_rows or len(requests)
        generations: list[Generation] = []
        for start in range(0, len(requests), piece):
            generations += self._sample_batch(requests[start : start + piece])
        return generations

    def _sample_batch(self, requests: list[GenerationRequest]) -> list[Generation]:
        started = time.perf_counter()
        sampled = sample_responses(
            self._model,
            requests,
            eos_token_ids=self._eos_token_ids,
            pad_token_id=self._pad_token_id,
            decode=self._decode,
            model_inputs=self._model_inputs,
            device=self._model.device,
        )
        self.stats.batches += 1
        self.stats.rows += len(requests)
        self.stats.prompt_tokens += sum(len(request.prompt_ids) for request in requests)
        self.stats.response_tokens += sum(len(ids) for ids, _, _ in sampled)
        self.stats.seconds += time.perf_counter() - started
        return [Generation(ids, logp, reason, self.weights_version) for ids, logp, reason in sampled]


def _pad_token_id(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> int:
    """The id for padding, which is masked: 0 where the tokenizer names none or one the model does not embed."""
    pad = tokenizer.pad_token_id
    return pad if isinstance(pad, int) and 0 <= pad < model.get_input_embeddings().weight.shape[0] else 0
