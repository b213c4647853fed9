"""Samples a batch of responses from a Hugging Face causal LM with its own KV cache and one uniform stream per row."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from rllib_gigpo.inference.protocol import FinishReason, GenerationRequest
from rllib_gigpo.inference.request_checks import check_request
from rllib_gigpo.inference.token_sampler import draw_tokens, uniform_stream
from rllib_gigpo.rl_modules.model_inputs import ModelInputs, text_inputs

if TYPE_CHECKING:
    from transformers import Cache, PreTrainedModel

Decode = Callable[[list[int]], str]
SampledResponse = tuple[np.ndarray, np.ndarray, FinishReason]

# Rows that have ended leave the batch when a smaller share than this is still being written: leaving copies the cache.
_LIVE_SHARE_TO_SHRINK = 0.75
# Tokens before a stop string's own that are decoded too: the first characters of a decoded window may differ from those
# in the whole text (a cut UTF-8 character, a leading space that a tokenizer strips).
_STOP_WINDOW_MARGIN = 4


@torch.inference_mode()
def sample_responses(
    model: PreTrainedModel,
    requests: Sequence[GenerationRequest],
    *,
    eos_token_ids: Collection[int],
    pad_token_id: int,
    decode: Decode,
    device: torch.device,
    model_inputs: ModelInputs = text_inputs,
) -> list[SampledResponse]:
    """Samples one response per request, all in one batch.

    A row's tokens follow from its prompt, seed and parameters. Its batch mates reach it only through the rounding of
    matrix products of another shape (about 1e-6 in a float32 log-prob), which changes a token only where a uniform
    number falls into such a gap.

    Args:
        model: Any causal LM that takes `past_key_values`, `position_ids` and `logits_to_keep`. Left in eval mode.
        requests: B requests.
        eos_token_ids: Each ends a response.
        pad_token_id: Fills the batch; any id of the vocabulary, since padding is masked.
        decode: Text of token ids, special tokens included; used only for stop strings.
        device: Where the model is.
        model_inputs: What the first forward pass takes of the prompts.

    Returns:
        For each request, in their order: ids int32[R], log-probs float32[R], finish reason.

    Raises:
        ValueError: A request cannot be served (`check_request`).
        FloatingPointError: The model's logits are NaN or infinite.
    """
    if not requests:
        return []
    for request in requests:
        check_request(model, request)
    model.eval()

    eos = frozenset(eos_token_ids)
    rows = [_Row(request) for request in requests]
    params = [request.sampling for request in requests]
    uniforms = _pad([uniform_stream(r.seed, r.sampling.max_response_tokens) for r in requests]).to(device)
    max_steps = uniforms.shape[1]
    distinct, prompt_of_row = _distinct(requests)
    batch = _Batch.of_prompts(distinct, max_steps, pad_token_id, partial(model_inputs, model), device)
    logits = batch.next_logits(model)
    if len(distinct) < len(requests):
        prompt_index = torch.tensor(prompt_of_row, device=device)
        batch.select(prompt_index)
        logits = logits[prompt_index]

    writing = list(rows)
    for step in range(max_steps):
        ids, logp = draw_tokens(logits, uniforms[:, step], params)
        for row, token, token_logp in zip(writing, ids.tolist(), logp.tolist(), strict=True):
            row.append(token, token_logp, eos, decode)
        live = [index for index, row in enumerate(writing) if row.finish_reason is None]
        if not live:
            break
        batch.append(ids, live)
        if len(live) < _LIVE_SHARE_TO_SHRINK * len(writing):
            index = torch.tensor(live, device=device)
            batch.select(index)
            uniforms = uniforms[index]
            writing, params = [writing[i] for i in live], [params[i] for i in live]
        logits = batch.next_logits(model)
    return [row.result() for row in rows]


@dataclass
class _Row:
    """A response being written."""

    request: GenerationRequest
    ids: list[int] = field(default_factory=list)
    logp: list[float] = field(default_factory=list)
    finish_reason: FinishReason | None = None
    stop_window: int = 0

    def __post_init__(self) -> None:
        stop = self.request.sampling.stop
        # A token stands for at least one byte, so no stop string spans more tokens than it has bytes.
        self.stop_window = max((len(text.encode()) for text in stop), default=0) + _STOP_WINDOW_MARGIN

    def append(self, token: int, logp: float, eos: frozenset[int], decode: Decode) -> None:
        """Adds a token and decides whether it ends the response; a row that has ended ignores it."""
        if self.finish_reason is not None:
            return
        if not math.isfinite(logp):
            raise FloatingPointError(
                f"token {len(self.ids)} of a response has log-prob {logp}: the model's logits are NaN or infinite; "
                "check the weights (a diverged update?) and the number format"
            )
        self.ids.append(token)
        self.logp.append(logp)
        if token in eos or self._completes_stop_string(decode):
            self.finish_reason = "stop"
        elif len(self.ids) == self.request.sampling.max_response_tokens:
            self.finish_reason = "length"

    def _completes_stop_string(self, decode: Decode) -> bool:
        stop = self.request.sampling.stop
        if not stop:
            return False
        tail = decode(self.ids[-self.stop_window :])
        return any(text in tail for text in stop)

    def result(self) -> SampledResponse:
        assert self.finish_reason is not None
        return np.array(self.ids, dtype=np.int32), np.array(self.logp, dtype=np.float32), self.finish_reason


@dataclass
class _Batch:
    """What the next forward pass takes, for the rows still in the batch.

    Attributes:
        input_ids: int64[B, T]: the left-padded prompts first, then one token a step.
        attention_mask: int64[B, P + R], 0 on the padding; a pass takes its first `width` columns.
        position_ids: int64[..., B, T]; some models have several for each token.
        width: Columns of the mask in use: tokens in the cache and in `input_ids`.
        more: What else the next pass takes, the first one: images.
        cache: The model's own cache; None before the first pass.
    """

    input_ids: torch.Tensor
    attention_mask: torch.Tensor
    position_ids: torch.Tensor
    width: int
    more: dict[str, Any]
    cache: Cache | None = None

    @classmethod
    def of_prompts(
        cls,
        requests: Sequence[GenerationRequest],
        max_response_tokens: int,
        pad_token_id: int,
        inputs_of: Callable[[dict[str, Any]], dict[str, Any]],
        device: torch.device,
    ) -> _Batch:
        prompts = [np.asarray(request.prompt_ids, dtype=np.int64) for request in requests]
        width = max(len(prompt) for prompt in prompts)
        input_ids = torch.full((len(prompts), width), pad_token_id, dtype=torch.int64)
        attention_mask = torch.ones(len(prompts), width + max_response_tokens, dtype=torch.int64)
        for row, prompt in enumerate(prompts):
            padding = width - len(prompt)
            input_ids[row, padding:] = torch.from_numpy(prompt)
            attention_mask[row, :padding] = 0
        position_ids = (attention_mask[:, :width].cumsum(dim=-1) - 1).clamp(min=0)
        rows = {
            "input_ids": input_ids.to(device),
            "attention_mask": attention_mask[:, :width].to(device),
            "position_ids": position_ids.to(device),
            "images": [request.images for request in requests],
        }
        more = inputs_of(rows)
        # The mask is the whole one, with room for the responses.
        del more["attention_mask"]
        return cls(more.pop("input_ids"), attention_mask.to(device), more.pop("position_ids"), width, more)

    def next_logits(self, model: PreTrainedModel) -> torch.Tensor:
        """float[B, V] after the last token of each row."""
        output = model(
            input_ids=self.input_ids,
            attention_mask=self.attention_mask[:, : self.width],
            position_ids=self.position_ids,
            past_key_values=self.cache,
            use_cache=True,
            logits_to_keep=1,
            **self.more,
        )
        self.more = {}
        self.cache = output.past_key_values
        return output.logits[:, -1]

    def append(self, ids: torch.Tensor, live: list[int]) -> None:
        """Takes int64[B] as the next input; `live` are the rows that are still being written."""
        self.input_ids = ids[:, None]
        self.width += 1
        # A row that has ended stands still: it could run past the model's last position while it waits for the others.
        advance = torch.zeros(len(ids), 1, dtype=torch.int64)
        advance[live] = 1
        self.position_ids = self.position_ids[..., -1:] + advance.to(ids.device)

    def select(self, index: torch.Tensor) -> None:
        """Makes row k what row index[k] was, for int64[K]: drops, reorders and repeats rows."""
        self.input_ids = self.input_ids[index]
        self.attention_mask = self.attention_mask[index]
        self.position_ids = self.position_ids[..., index, :]
        # Written for beam search, it selects rows in every kind of cache layer, recurrent ones included.
        assert self.cache is not None
        self.cache.reorder_cache(index)


def _distinct(requests: Sequence[GenerationRequest]) -> tuple[list[GenerationRequest], list[int]]:
    """Requests with the distinct prompts in order of appearance, and for each request the place of its own among them.

    Every group's members start from the same prompt, and many a later prompt repeats, so the prefill is shared.
    """
    places: dict[Hashable, int] = {}
    distinct: list[GenerationRequest] = []
    place_of_row = []
    for request in requests:
        ids = np.asarray(request.prompt_ids, dtype=np.int64)
        place = places.setdefault((ids.tobytes(), request.images), len(distinct))
        if place == len(distinct):
            distinct.append(request)
        place_of_row.append(place)
    return distinct, place_of_row


def _pad(streams: Sequence[np.ndarray]) -> torch.Tensor:
    """Rows float64[n_b] to float64[B, max n], zeros behind each row's end."""
    padded = np.zeros((len(streams), max(len(stream) for stream in streams)))
    for row, stream in enumerate(streams):
        padded[row, : len(stream)] = stream
    return torch.from_numpy(padded)
