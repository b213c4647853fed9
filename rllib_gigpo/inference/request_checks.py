"""Whether an engine can serve a request; one error that names what is wrong, before anything is sampled."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rllib_gigpo.inference.protocol import GenerationRequest

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def check_request(model: PreTrainedModel, request: GenerationRequest, *, max_tokens: int | None = None) -> None:
    """Checks that an engine can serve a request.

    Args:
        model: What it serves; the meta device is enough.
        request: The request.
        max_tokens: Of a prompt with its response, where the engine was started for less than the model's context.

    Raises:
        ValueError: The seed is out of range, the prompt is empty or holds an id outside the vocabulary, or prompt and
            longest response together exceed the model's positions, or `max_tokens`.
    """
    if not 0 <= request.seed < 2**64:
        raise ValueError(f"seed is {request.seed}; it must be in [0, 2**64)")
    prompt_ids = np.asarray(request.prompt_ids)
    if prompt_ids.ndim != 1 or prompt_ids.size == 0:
        raise ValueError(f"prompt_ids has shape {prompt_ids.shape}; it must be one row of at least one token id")
    vocabulary = model.get_input_embeddings().weight.shape[0]
    if prompt_ids.min() < 0 or prompt_ids.max() >= vocabulary:
        raise ValueError(
            f"prompt_ids hold ids from {prompt_ids.min()} to {prompt_ids.max()}, but the model embeds {vocabulary}: "
            "use the model's own tokenizer"
        )
    longest = prompt_ids.size + request.sampling.max_response_tokens
    if max_tokens is not None and longest > max_tokens:
        raise ValueError(
            f"a prompt of {prompt_ids.size} tokens and max_response_tokens={request.sampling.max_response_tokens} need "
            f"a context of {longest}, but the engine was started for {max_tokens}, max_prompt_tokens + "
            "max_response_tokens of the config: raise them, or give engine_options={'max_model_len': …}"
        )
    limit = getattr(model.config.get_text_config(decoder=True), "max_position_embeddings", None)
    if limit is not None and longest > limit:
        raise ValueError(
            f"a prompt of {prompt_ids.size} tokens and max_response_tokens={request.sampling.max_response_tokens} need "
            f"{longest} positions, but the model has max_position_embeddings={limit}: shorten one of them"
        )
