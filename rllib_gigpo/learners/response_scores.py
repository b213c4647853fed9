"""Log-probabilities of the responses of token rows under some policy, by forward passes of micro-batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from rllib_gigpo.learners.equal_passes import filler_row, passes_of
from rllib_gigpo.learners.learner_progress import count_pass
from rllib_gigpo.learners.losses import token_log_probs
from rllib_gigpo.learners.micro_batches import pad_rows
from rllib_gigpo.learners.packed_rows import pack_rows
from rllib_gigpo.learners.shared_prefixes import Layout, pack_trie
from rllib_gigpo.rl_modules.shared_prefix_attention import SHARED_PREFIXES, PackedAttention, TrieAttention
from rllib_gigpo.rl_modules.weights import array_to_tensor
from rllib_gigpo.rows import TokenRows, packed_indices


def micro_batch_tensors(
    rows: TokenRows, layout: Layout = "padded", *, pad_id: int, device: torch.device | str
) -> dict[str, Any]:
    """K rows with M response tokens on the device: advantages float32[K], response_lengths int64[K], rollout_logp
    float32[M]; old_logp, reference_logp, token_advantages, values and value_targets, float32[M] or None each; images,
    object[K] or None, handles whose pixels stay where they are; num_row_tokens, a number; and the fields of
    `PaddedRows`, or those of `PackedRows` or `TrieRows`, with what attends to what in SHARED_PREFIXES."""
    arrays = {
        **_laid_out(rows, layout, pad_id, device),
        "images": rows.images,
        "num_row_tokens": rows.num_tokens,
        "advantages": rows.advantages,
        "response_lengths": rows.response_lengths,
        "rollout_logp": rows.rollout_logp,
        "old_logp": rows.old_logp,
        "reference_logp": rows.reference_logp,
        "token_advantages": rows.token_advantages,
        "values": rows.values,
        "value_targets": rows.value_targets,
    }
    return {
        name: array_to_tensor(value).to(device) if isinstance(value, np.ndarray) and name != "images" else value
        for name, value in arrays.items()
    }


def _laid_out(rows: TokenRows, layout: Layout, pad_id: int, device: torch.device | str) -> dict[str, Any]:
    """Where the rows' tokens lie, see `micro_batch_tensors`."""
    if layout == "padded":
        return vars(pad_rows(rows, pad_id))
    if layout == "packed":
        packed = vars(pack_rows(rows))
        return {SHARED_PREFIXES: PackedAttention(packed.pop("runs")), **packed}
    trie = vars(pack_trie(rows))
    parts = [tuple(array_to_tensor(array).to(device) for array in part) for part in trie.pop("attention")]
    attention = TrieAttention(parts, array_to_tensor(trie.pop("attended_index")).to(device))  # type: ignore[arg-type]
    return {**trie, SHARED_PREFIXES: attention}


def score_responses(
    rows: TokenRows,
    logits_of: Callable[[dict[str, Any]], torch.Tensor],
    *,
    network: torch.nn.Module,
    temperature: float,
    micro_batch_tokens: int,
    pad_id: int,
    device: torch.device | str,
) -> np.ndarray:
    """Log-probabilities of the response tokens.

    Args:
        rows: The rows, with M response tokens; may be none.
        logits_of: Logits, [M_i, V], of the response tokens of a micro-batch as `micro_batch_tensors` makes it.
        network: What `logits_of` goes through; where it is sharded, every learner must call this.
        temperature: Of the policy.
        micro_batch_tokens: Padded tokens per forward pass.
        pad_id: Any id that the model embeds.
        device: Of the model.

    Returns:
        float32[M], packed like `rows.rollout_logp`.
    """

    def log_probs_of(batch: dict[str, Any]) -> torch.Tensor:
        return token_log_probs(logits_of(batch), batch["response_ids"], temperature)

    return score_tokens(
        rows, log_probs_of, network=network, micro_batch_tokens=micro_batch_tokens, pad_id=pad_id, device=device
    )


@torch.no_grad()
def score_tokens(
    rows: TokenRows,
    scores_of: Callable[[dict[str, Any]], torch.Tensor],
    *,
    network: torch.nn.Module,
    micro_batch_tokens: int,
    pad_id: int,
    device: torch.device | str,
) -> np.ndarray:
    """As `score_responses`, with any score: `scores_of` gives float32[M_i], one per response token of a micro-batch."""
    scores = np.empty(rows.num_response_tokens, np.float32)
    for part, layout in passes_of(rows, network, micro_batch_tokens, device):
        count_pass()
        rows_of_part = rows.take(part) if len(part) else filler_row(pad_id)
        of_part = scores_of(micro_batch_tensors(rows_of_part, layout, pad_id=pad_id, device=device))
        if len(part):
            scores[packed_indices(rows.response_lengths, part)] = of_part.cpu().numpy()
    return scores


def score_in_loss(rows: TokenRows, score: Callable[[TokenRows], np.ndarray]) -> np.ndarray:
    """What `score` gives for the rows in the loss, float32[M]. The others are never looked at; they keep the sampler's
    log-probabilities."""
    scores = rows.rollout_logp.copy()
    scores[np.repeat(rows.in_loss, rows.response_lengths)] = score(rows.take(np.flatnonzero(rows.in_loss)))
    return scores
