"""RLOO: one advantage per trajectory, against the mean of the other trajectories of its group."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rllib_gigpo.algorithms.rloo.rloo import RLOO, RLOOConfig

__all__ = ["RLOO", "RLOOConfig"]


def __getattr__(name: str) -> Any:
    """Imports the algorithm when it is asked for: its advantage functions need neither Ray nor torch."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from rllib_gigpo.algorithms.rloo import rloo

    return getattr(rloo, name)
