"""What a language model's forward pass takes of whole rows of tokens: what differs between kinds of models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedModel

# From a model and B padded rows to the keyword arguments of its forward pass. The rows: input_ids, attention_mask and
# position_ids (from 0 at a row's first token), int64[B, L], and images, object[B], a tuple of handles each, or None.
ModelInputs = Callable[["PreTrainedModel", Mapping[str, Any]], dict[str, Any]]


def text_inputs(lm: PreTrainedModel, rows: Mapping[str, Any]) -> dict[str, Any]:
    """`ModelInputs` of a model that reads text alone. Raises ValueError where a row has an image."""
    if (images := rows.get("images")) is not None and any(images):
        raise ValueError(f"a row has an image, but the model, a {type(lm).__name__}, reads text alone")
    return {name: rows[name] for name in ("input_ids", "attention_mask", "position_ids")}
