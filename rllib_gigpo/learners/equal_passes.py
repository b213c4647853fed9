"""The forward passes of rows through a network; learners that share a sharded one take as many each."""

from __future__ import annotations

import numpy as np
import torch
import torch.distributed

from rllib_gigpo.learners.shared_prefixes import MicroBatch, split_into_passes
from rllib_gigpo.rl_modules.sharded_tensors import is_sharded
from rllib_gigpo.rl_modules.shared_prefix_attention import has_shared_prefixes
from rllib_gigpo.rows import TokenRows

NO_ROWS = MicroBatch(np.arange(0), "padded")


def passes_of(
    rows: TokenRows, network: torch.nn.Module, token_budget: int, device: torch.device | str
) -> list[MicroBatch]:
    """The micro-batches in which rows go through a network on a device. With a sharded network all learners must call
    it, and get equally many: at the end some may be empty."""
    shares = has_shared_prefixes(network)
    # A call for each run of rows of equal length: on a GPU, where many small ones take longer, that was not measured,
    # and a compiled network would be traced anew for each set of runs.
    packs = shares and torch.device(device).type == "cpu" and getattr(network, "_compiled_call_impl", None) is None
    micro_batches = split_into_passes(rows, token_budget, share_prefixes=shares, pack=packs)
    if not is_sharded(network):
        return micro_batches
    count = torch.tensor(len(micro_batches), device=device)
    torch.distributed.all_reduce(count, op=torch.distributed.ReduceOp.MAX)
    return [*micro_batches, *([NO_ROWS] * (int(count) - len(micro_batches)))]


def filler_row(pad_id: int) -> TokenRows:
    """A row that stands for an empty micro-batch in a pass, and whose outputs count for nothing."""
    return TokenRows.from_lists([np.array([pad_id])], [np.array([pad_id])], [np.zeros(1)])
