"""GiGPO: trajectory advantages plus step advantages among equal anchor states."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rllib_gigpo.algorithms.gigpo.gigpo import GiGPO, GiGPOConfig

__all__ = ["GiGPO", "GiGPOConfig"]


def __getattr__(name: str) -> Any:
    """Imports the algorithm when it is asked for: its advantage functions need neither Ray nor torch."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from rllib_gigpo.algorithms.gigpo import gigpo

    return getattr(gigpo, name)
