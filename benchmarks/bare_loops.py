"""Updates of a policy with transformers and torch alone: the loss of GRPO on token rows, without RLlib and metrics."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface, AutoModelForCausalLM, PreTrainedModel

from rllib_gigpo.rows import TokenRows

CLIP = 0.2
ROW_BY_ROW = "sdpa_row_by_row"


def load_model(path: Path, attention: str = "sdpa") -> PreTrainedModel:
    """The model of a directory in float32, as it is trained."""
    model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
        path, dtype=torch.float32, attn_implementation=attention
    )
    return model.train()


def grpo_loss(logits: torch.Tensor, ids: torch.Tensor, advantages: torch.Tensor) -> torch.Tensor:
    """Sum of the clipped surrogate over M response tokens, on the policy that sampled them.

    Args:
        logits: float[M, V], at the positions that predict `ids`.
        ids: int64[M].
        advantages: float[M].
    """
    logp = logits.log_softmax(-1).gather(-1, ids[:, None])[:, 0]
    ratio = (logp - logp.detach()).exp()
    return torch.maximum(-advantages * ratio, -advantages * ratio.clamp(1 - CLIP, 1 + CLIP)).sum()


class BareLoop:
    """Forward and backward passes over micro-batches of about equal tokens, then one step of AdamW."""

    def __init__(self, path: Path, token_budget: int, attention: str = "sdpa"):
        self.model = load_model(path, attention)
        self.token_budget = token_budget
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-9)

    def update(self, rows: TokenRows) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        row_ids = np.split(rows.token_ids.astype(np.int64), np.cumsum(rows.lengths)[:-1])
        for group in self.micro_batches(rows.lengths):
            logits, ids = self.forward([row_ids[row] for row in group], rows.response_lengths[group])
            advantages = torch.from_numpy(np.repeat(rows.advantages[group], rows.response_lengths[group]))
            (grpo_loss(logits, ids, advantages) / rows.num_response_tokens).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()

    def micro_batches(self, lengths: np.ndarray) -> list[np.ndarray]:
        raise NotImplementedError

    def forward(self, rows: list[np.ndarray], responses: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits float[M, V] and ids int64[M] of the responses of K rows (int64[t] each; int64[K] response tokens)."""
        raise NotImplementedError


class PaddedLoop(BareLoop):
    """Rows sorted by length, padded on the left to the longest of their micro-batch; logits of the last columns."""

    def micro_batches(self, lengths: np.ndarray) -> list[np.ndarray]:
        order = np.argsort(lengths, kind="stable")
        return _runs(order, lambda run: int(lengths[run].max()) * len(run) <= self.token_budget)

    def forward(self, rows: list[np.ndarray], responses: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        width, columns = max(map(len, rows)), int(responses.max())
        ids = torch.zeros(len(rows), width, dtype=torch.int64)
        mask = torch.zeros(len(rows), width, dtype=torch.int64)
        for place, row in enumerate(rows):
            ids[place, width - len(row) :] = torch.from_numpy(row)
            mask[place, width - len(row) :] = 1
        logits = self.model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=(mask.cumsum(-1) - 1).clamp(min=0),
            use_cache=False,
            logits_to_keep=columns + 1,
        ).logits[:, :-1]
        is_response = torch.arange(columns) >= columns - torch.from_numpy(responses)[:, None]
        return logits[is_response], ids[:, width - columns :][is_response]


class PackedLoop(BareLoop):
    """Rows one behind the other in one sequence, with positions from 0 in each: transformers makes a block-diagonal
    mask of these. No padding; logits of response tokens only."""

    def micro_batches(self, lengths: np.ndarray) -> list[np.ndarray]:
        order = np.argsort(lengths, kind="stable")
        return _runs(order, lambda run: int(lengths[run].sum()) <= self.token_budget)

    def forward(self, rows: list[np.ndarray], responses: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        lengths = np.array([len(row) for row in rows])
        ids = np.concatenate(rows)
        ends = np.cumsum(lengths)
        response = np.concatenate([np.arange(end - n, end) for end, n in zip(ends, responses, strict=True)])
        logits = self.model(
            input_ids=torch.from_numpy(ids)[None],
            position_ids=torch.from_numpy(np.concatenate([np.arange(length) for length in lengths]))[None],
            use_cache=False,
            logits_to_keep=torch.from_numpy(response - 1),
            **self.attention_arguments(lengths),
        ).logits[0]
        return logits, torch.from_numpy(ids[response])

    def attention_arguments(self, lengths: np.ndarray) -> dict[str, Any]:
        return {}


class RowByRowLoop(PackedLoop):
    """As `PackedLoop`, but attention is computed row by row, causally and without a mask: what a kernel for sequences
    of various lengths does on a GPU. Rows of equal length go together."""

    def __init__(self, path: Path, token_budget: int):
        super().__init__(path, token_budget, ROW_BY_ROW)

    def attention_arguments(self, lengths: np.ndarray) -> dict[str, Any]:
        values, counts = np.unique(lengths, return_counts=True)  # sorted, as the rows are
        return {"runs_of_rows": list(zip(counts.tolist(), values.tolist(), strict=True))}


def _runs(order: np.ndarray, fits: Callable[[np.ndarray], bool]) -> list[np.ndarray]:
    """Splits an order of rows into runs that fit, each as long as it can be."""
    runs, start = [], 0
    for end in range(1, len(order) + 1):
        if end == len(order) or not fits(order[start : end + 1]):
            runs.append(order[start:end])
            start = end
    return runs


def _row_by_row(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    runs_of_rows: list[tuple[int, int]],
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    # Not slices: the gradient of each would be a tensor as large as the whole.
    parts = zip(
        *(states[0].split([k * t for k, t in runs_of_rows], dim=1) for states in (query, key, value)), strict=True
    )
    attended = []
    for (count, length), of_run in zip(runs_of_rows, parts, strict=True):
        q, k, v = (states.unflatten(1, (count, length)).transpose(0, 1) for states in of_run)
        out = scaled_dot_product_attention(q, k, v, is_causal=True, scale=scaling, enable_gqa=True)
        attended.append(out.transpose(1, 2).flatten(0, 1))
    return torch.cat(attended)[None], None


AttentionInterface.register(ROW_BY_ROW, _row_by_row)
AttentionMaskInterface.register(ROW_BY_ROW, lambda *args, **kwargs: None)
