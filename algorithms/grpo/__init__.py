"""GRPO: one group-relative advantage per trajectory."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rllib_gigpo.algorithms.grpo.grpo import GRPO, GRPOConfig

__all__ = ["GRPO", "GRPOConfig"]


def __getattr__(name: str) -> Any:
    """Imports the algorithm when it is asked for: its advantage functions need neither Ray nor torch."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from rllib_gigpo.algorithms.grpo import grpo

    return getattr(grpo, name)
