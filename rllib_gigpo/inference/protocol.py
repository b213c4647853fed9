"""What every inference engine promises: token ids and a seed in, token ids and log-probabilities out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

from rllib_gigpo.images import StoredImage
from rllib_gigpo.inference.weights_probe import Probe

FinishReason = Literal["stop", "length"]


@dataclass(frozen=True)
class SamplingParams:
    """How responses are sampled.

    Attributes:
        max_response_tokens: A response is cut there, with finish reason "length".
        temperature: 0 is greedy: the most likely token each time.
        top_p: Nucleus: the smallest set of tokens that holds this much probability. 1 is off.
        top_k: Only the k most likely tokens. 0 is off.
        stop: A response ends, with finish reason "stop", as soon as its text holds one of these strings; the tokens
            that complete the string stay in the response.

    Raises:
        ValueError: A value is out of its range; the message names it.
    """

    max_response_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    stop: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.max_response_tokens < 1:
            raise ValueError(f"max_response_tokens is {self.max_response_tokens}; it must be at least 1")
        if not self.temperature >= 0:
            raise ValueError(f"temperature is {self.temperature}; it must be 0 (greedy) or greater")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p is {self.top_p}; it must be in (0, 1]")
        if self.top_k < 0:
            raise ValueError(f"top_k is {self.top_k}; it must be 0 (off) or greater")
        if any(not text for text in self.stop):
            raise ValueError("stop holds an empty string, which would end every response at once")


@dataclass(frozen=True)
class GenerationRequest:
    """One response to sample.

    Attributes:
        prompt_ids: int32[P], P >= 1. An image has as many ids as it is tokens to the model: placeholders are expanded.
            An engine that expands them by itself collapses them first.
        seed: 64-bit seed of this response alone: the same prompt, seed and weights give the same response, whatever
            else the engine samples at the time.
        sampling: How to sample.
        order: Sort key, (group, member) or (group, member, agent) in a rollout. Engines that batch put rows in this
            order, so that a batch does not depend on which coroutine asked first.
        module_id: Which of its modules samples, where an engine serves several.
        images: Of the prompt, in the order of their placeholders; `np.asarray` of one gives uint8[H, W, 3], and its
            `key` tells images apart.
    """

    prompt_ids: np.ndarray
    seed: int
    sampling: SamplingParams
    order: tuple[int, ...] = ()
    module_id: str | None = None
    images: tuple[StoredImage, ...] = ()


@dataclass(frozen=True)
class Generation:
    """A sampled response.

    Attributes:
        response_ids: int32[R], R >= 1, exactly as sampled, the end-of-sequence token included where one was sampled.
        logp: float32[R], log-probability of each token under the distribution it was drawn from: temperature, top-k and
            top-p applied. With temperature 0 it is that of the untempered model.
        finish_reason: "stop" (end-of-sequence token or a stop string) or "length".
        weights_version: Version of the weights that sampled it.
    """

    response_ids: np.ndarray
    logp: np.ndarray
    finish_reason: FinishReason
    weights_version: int


class InferenceClient(Protocol):
    """One coroutine's door to an engine; an async context manager.

    A batching engine waits until each of its open clients has asked, so a coroutine closes its client as soon as it has
    nothing more to ask.
    """

    async def __aenter__(self) -> InferenceClient: ...

    async def __aexit__(self, *exc_info: Any) -> None: ...

    async def generate(self, request: GenerationRequest) -> Generation:
        """Samples one response.

        Raises:
            ValueError: The engine cannot serve this request; the others do not notice.
            RuntimeError: The engine failed, in every waiting call; EngineDied where its process is gone.
        """
        ...


class EngineDied(RuntimeError):
    """An engine's process is gone; the env runner needs a new one."""


class RolloutEngine(Protocol):
    """Samples responses for many coroutines at once.

    Attributes:
        in_lock_step: Whether it samples only when every open client waits, in batches. Otherwise it takes each request
            as it comes.
    """

    in_lock_step: bool

    def client(self) -> InferenceClient:
        """A new client, counted as live from this call on (not from `__aenter__`)."""
        ...

    def abort(self) -> None:
        """Closes every client, also those that a rollout which failed left behind."""
        ...

    def close(self) -> None:
        """Ends whatever runs outside of this process."""
        ...


class InferenceEngine(RolloutEngine, Protocol):
    """Serves the weights of one module."""

    weights_version: int

    def deliver(self, weights: dict[str, Any], version: int) -> None:
        """Takes new weights; every later `Generation` carries `version`. Never called while a client is open.

        The arrays may be the learner's own, which its next update changes: an engine copies what it keeps.
        """
        ...

    def probe(self, probe: Probe) -> np.ndarray:
        """Log-probs, at temperature 1, of a sequence of n >= 2 tokens under the weights that are served.

        Returns:
            float32[n - 1], of each token but the first, given those before it.
        """
        ...

    def sleep(self, level: int) -> None:
        """Gives memory back until the next request or delivery; see docs/inference.md."""
        ...
