"""REINFORCE++: returns, normalized over all steps of an iteration."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rllib_gigpo.algorithms.reinforce.reinforce import REINFORCEPlusPlus, REINFORCEPlusPlusConfig

__all__ = ["REINFORCEPlusPlus", "REINFORCEPlusPlusConfig"]


def __getattr__(name: str) -> Any:
    """Imports the algorithm when it is asked for: its advantage functions need neither Ray nor torch."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from rllib_gigpo.algorithms.reinforce import reinforce

    return getattr(reinforce, name)
