"""New tensors in this process stay unfilled, also where torch's algorithms are deterministic."""

from __future__ import annotations

import torch.utils.deterministic


def leave_new_tensors_unfilled() -> None:
    """Saves the time that torch would take to fill tensors which are then written anyway.

    With a seed, RLlib calls `torch.use_deterministic_algorithms`, whose default is to fill every new tensor with NaN,
    so that reads of memory that nobody has written are seen. No algorithm depends on it.
    """
    # A property, of an object that torch has put in the module's place.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
