"""DAPO: GRPO with a higher upper clip, dynamic sampling, and a soft penalty on over-long responses."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rllib_gigpo.algorithms.dapo.dapo import DAPO, DAPOConfig

__all__ = ["DAPO", "DAPOConfig"]


def __getattr__(name: str) -> Any:
    """Imports the algorithm when it is asked for: its penalty function needs neither Ray nor torch."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from rllib_gigpo.algorithms.dapo import dapo

    return getattr(dapo, name)
