"""Warm start on texts: user messages, and the responses that a model is to give to them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from rllib_gigpo.agent_formats.chat import encode_prompt
from rllib_gigpo.rl_modules.embedded.warm_start import warm_start


def imitate(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    rows: Sequence[tuple[str, str]],
    *,
    steps: int,
    learning_rate: float,
    seed: int,
) -> list[float]:
    """Warms `model` up in place on rows of user message and response, see `warm_start`.

    Returns:
        The loss of every step, in nats per response token.

    Raises:
        ValueError: There are no rows, or the tokenizer has no chat template.
    """
    return warm_start(
        model,
        prompts=[encode_prompt(tokenizer, user_message) for user_message, _ in rows],
        responses=[_encode_response(tokenizer, response) for _, response in rows],
        steps=steps,
        learning_rate=learning_rate,
        seed=seed,
    )


def _encode_response(tokenizer: PreTrainedTokenizerBase, response: str) -> np.ndarray:
    """Token ids, int32[R], end-of-sequence token included."""
    return np.asarray([*tokenizer.encode(response, add_special_tokens=False), tokenizer.eos_token_id], np.int32)
