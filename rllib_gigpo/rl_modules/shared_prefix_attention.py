"""Attention over one sequence of rows: packed ones, or a trie, in which rows share their prefixes.

An attention function of transformers' registry. What the layers do besides is done token by token, and so once for
each token of the sequence, without padding. Here packed rows are views of the sequence, each attending to itself. In a
trie each row's own tokens attend to all of the row: a prefix is there once for each of its rows, as keys and values,
gathered, which takes no more memory than the keys and values of rows that share nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

import torch
from torch.nn.functional import embedding

if TYPE_CHECKING:
    from transformers import PreTrainedModel

NAME = "sdpa_shared_prefixes"
# Keyword argument of a forward pass over one sequence of rows, which these models hand down to the attention function.
SHARED_PREFIXES = "shared_prefixes"

# Models that were tried (tests/integration/test_shared_prefixes.py). In others a layer may look at neighbours in the
# sequence past the attention function, or drop its keyword arguments.
_MODEL_TYPES = ("llama", "mistral", "qwen2", "qwen3")


class TrieAttention(NamedTuple):
    """What attends to what in a trie of N tokens; see `rllib_gigpo.learners.shared_prefixes`.

    Attributes:
        parts: (queries int64[k, q], keys int64[k, t], mask bool[k, 1, q, t]) of each rectangle.
        attended_index: int64[N].
    """

    parts: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]
    attended_index: torch.Tensor


class PackedAttention(NamedTuple):
    """What attends to what in packed rows, whose lengths add up to N; see `rllib_gigpo.learners.packed_rows`.

    Attributes:
        runs: (count, tokens of each) of rows of equal length that follow one another.
    """

    runs: tuple[tuple[int, int], ...]


def can_share_prefixes(lm: PreTrainedModel) -> bool:
    """Whether forward passes of a model over a trie give what passes over rows give: the one place that decides.

    It must be one of the models that were tried, with attention by `sdpa` and to all earlier tokens in every layer: a
    sliding window counts tokens of the sequence, not of a row.
    """
    config = lm.config
    layer_types = getattr(config, "layer_types", None)
    is_windowed = (
        getattr(config, "sliding_window", None) is not None
        if layer_types is None
        else any(layer_type != "full_attention" for layer_type in layer_types)
    )
    return config.model_type in _MODEL_TYPES and config._attn_implementation == "sdpa" and not is_windowed


def enable_shared_prefixes(lm: PreTrainedModel) -> None:
    """Has the forward passes of a model, for which `can_share_prefixes`, take packed rows and tries; those of padded
    rows stay as they are."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    AttentionInterface.register(NAME, shared_prefix_attention)
    AttentionMaskInterface.register(NAME, sdpa_mask)
    lm.set_attn_implementation(NAME)


def has_shared_prefixes(lm: torch.nn.Module) -> bool:
    """Whether forward passes of a model, one of transformers, take packed rows and tries."""
    return cast("PreTrainedModel", lm).config._attn_implementation == NAME


def shared_prefix_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    shared_prefixes: TrieAttention | PackedAttention | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Attention of a layer, over padded rows as transformers' `sdpa` does it, or over one sequence of rows.

    Args:
        module: The layer's attention module.
        query: float[1, heads, N, D].
        key, value: float[1, key-value heads, N, D].
        attention_mask: Of padded rows.
        shared_prefixes: What attends to what; None: the tensors are of padded rows, float[B, heads, T, D].
        kwargs: Handed on.

    Returns:
        float[1, N, heads, D], and None for the attention weights.
    """
    if shared_prefixes is None:
        return _sdpa(module, query, key, value, attention_mask, **kwargs)
    if isinstance(shared_prefixes, PackedAttention):
        return _over_packed_rows(module, (query, key, value), shared_prefixes.runs, **kwargs), None
    queries, keys, values = (_token_by_token(states) for states in (query, key, value))
    attended = [
        _sdpa(
            module,
            _gather(queries, query_index, query.shape[1]),
            _gather(keys, key_index, key.shape[1]),
            _gather(values, key_index, value.shape[1]),
            mask,
            **kwargs,
        )[0].flatten(2)
        for query_index, key_index, mask in shared_prefixes.parts
    ]
    whole = torch.cat([part.flatten(0, 1) for part in attended])
    return embedding(shared_prefixes.attended_index, whole).unflatten(-1, (query.shape[1], -1))[None], None


def _over_packed_rows(
    module: torch.nn.Module, states: tuple[torch.Tensor, ...], runs: tuple[tuple[int, int], ...], **kwargs: Any
) -> torch.Tensor:
    """float[1, N, heads, D] of query, key and value, float[1, H, N, D] each; rows of a run attend in one call, causally
    and without a mask."""
    tokens = [count * length for count, length in runs]
    attended = []
    # Not slices: the gradient of each would be as large as the whole sequence.
    for (count, length), of_run in zip(
        runs, zip(*(one.split(tokens, dim=2) for one in states), strict=True), strict=True
    ):
        rows = (one[0].unflatten(1, (count, length)).transpose(0, 1) for one in of_run)
        attended.append(_sdpa(module, *rows, None, **kwargs)[0].flatten(0, 1))
    return torch.cat(attended)[None]


def _token_by_token(states: torch.Tensor) -> torch.Tensor:
    """float[1, H, N, D] as float[N, H · D]."""
    return states[0].transpose(0, 1).flatten(1)


def _gather(states: torch.Tensor, index: torch.Tensor, heads: int) -> torch.Tensor:
    """float[k, H, t, D] of states float[N, H · D] at int64[k, t].

    As an embedding: its gradient, a sum over the rows that share a token, is fast on a CPU, and on a GPU the same every
    time.
    """
    return embedding(index, states).unflatten(-1, (heads, -1)).transpose(1, 2)


def _sdpa(module: torch.nn.Module, *states: torch.Tensor | None, **kwargs: Any) -> tuple[torch.Tensor, None]:
    """transformers' attention by `sdpa`, of query, key, value and mask."""
    # Here, since a driver whose learners are elsewhere imports this file, and has no use for transformers' models.
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    return sdpa_attention_forward(module, *states, **kwargs)
