"""GAGPO: step advantages from a value proxy that a rollout group gives its own states."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rllib_gigpo.algorithms.gagpo.gagpo import GAGPO, GAGPOConfig

__all__ = ["GAGPO", "GAGPOConfig"]


def __getattr__(name: str) -> Any:
    """Imports the algorithm when it is asked for: its advantage functions need neither Ray nor torch."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from rllib_gigpo.algorithms.gagpo import gagpo

    return getattr(gagpo, name)
