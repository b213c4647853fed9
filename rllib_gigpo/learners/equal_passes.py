"""Learners that share a sharded network go through it together: each the same number of times."""

from __future__ import annotations

import numpy as np
import torch
import torch.distributed

from rllib_gigpo.learners.shared_prefixes import MicroBatch
from rllib_gigpo.rl_modules.sharded_network import is_sharded
from rllib_gigpo.rows import TokenRows

NO_ROWS = MicroBatch(np.arange(0), shares_prefixes=False)


def equal_passes(
    micro_batches: list[MicroBatch], network: torch.nn.Module, device: torch.device | str
) -> list[MicroBatch]:
    """`micro_batches` with as many empty ones at the end as it takes for every learner to have the same number; all of
    them must call it. Of a network that is not sharded, just `micro_batches`."""
    if not is_sharded(network):
        return micro_batches
    count = torch.tensor(len(micro_batches), device=device)
    torch.distributed.all_reduce(count, op=torch.distributed.ReduceOp.MAX)
    return [*micro_batches, *([NO_ROWS] * (int(count) - len(micro_batches)))]


def filler_row(pad_id: int) -> TokenRows:
    """A row that stands for an empty micro-batch in a pass, and whose outputs count for nothing."""
    return TokenRows.from_lists([np.array([pad_id])], [np.array([pad_id])], [np.zeros(1)])
