"""Learners that share a sharded network go through it together: each the same number of times."""

from __future__ import annotations

import numpy as np
import torch
import torch.distributed

from rllib_gigpo.rl_modules.sharded_network import is_sharded
from rllib_gigpo.rows import TokenRows


def equal_passes(groups: list[np.ndarray], network: torch.nn.Module, device: torch.device | str) -> list[np.ndarray]:
    """`groups` (int64[K_i] each) with as many empty ones at the end as it takes for every learner to have the same
    number; all of them must call it. Of a network that is not sharded, just `groups`."""
    if not is_sharded(network):
        return groups
    count = torch.tensor(len(groups), device=device)
    torch.distributed.all_reduce(count, op=torch.distributed.ReduceOp.MAX)
    return [*groups, *([np.arange(0)] * (int(count) - len(groups)))]


def filler_row(pad_id: int) -> TokenRows:
    """A row that stands for an empty group in a pass, and whose outputs count for nothing."""
    return TokenRows.from_lists([np.array([pad_id])], [np.array([pad_id])], [np.zeros(1)])
