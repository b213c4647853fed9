"""GSPO: GRPO with one importance ratio per response."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rllib_gigpo.algorithms.gspo.gspo import GSPO, GSPOConfig

__all__ = ["GSPO", "GSPOConfig"]


def __getattr__(name: str) -> Any:
    """Imports the algorithm when it is asked for, and with it Ray."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from rllib_gigpo.algorithms.gspo import gspo

    return getattr(gspo, name)
