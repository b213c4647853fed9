"""Optimizers of the learners, and their state as numpy arrays, which also hold bfloat16."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def make_optimizer(
    params: list[torch.nn.Parameter], config: Any, *, dtypes: set[torch.dtype], module_id: str
) -> torch.optim.Optimizer:
    """The optimizer of `params` that `config.optimizer` names, with config.adam_betas and config.weight_decay; its
    learning rate is set later.

    Raises:
        ValueError: Weights of the module, whose types are `dtypes`, are float16, or the name is unknown.
    """
    if torch.float16 in dtypes:
        # AdamW's epsilon is 0 in float16: its first step divides 0 by 0 and leaves NaN behind.
        raise ValueError(
            f"dtype of module {module_id} is 'float16', which cannot be trained; use 'float32' or 'bfloat16'"
        )
    if config.optimizer == "adamw":
        return torch.optim.AdamW(params, betas=tuple(config.adam_betas), weight_decay=config.weight_decay)
    if config.optimizer == "sgd":
        return torch.optim.SGD(params, weight_decay=config.weight_decay)
    raise ValueError(f"optimizer is {config.optimizer!r}; it must be 'adamw' or 'sgd'")


def map_buffers(convert: Callable[[int, Any], Any], state: dict[str, Any]) -> dict[str, Any]:
    """An optimizer's state dict with every buffer of every parameter (moments, step) converted, by the parameter's
    index and its value."""
    buffers = {
        index: {name: convert(index, value) for name, value in of_param.items()}
        for index, of_param in state["state"].items()
    }
    return {**state, "state": buffers}
