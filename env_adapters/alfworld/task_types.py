"""The six task types of ALFWorld and the three splits of its data."""

from __future__ import annotations

from collections.abc import Sequence

SPLITS = ("train", "valid_seen", "valid_unseen")

# In the order of the benchmark, which numbers them from 1.
TASK_TYPES = (
    "pick_and_place_simple",
    "look_at_obj_in_light",
    "pick_clean_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "pick_two_obj_and_place",
)


def checked_task_types(task_types: Sequence[str | int] | None) -> tuple[str, ...]:
    """Names of the task types, in the benchmark's order, given by name or number; all of them for None.

    Raises:
        ValueError: One is unknown, or there are none.
    """
    if task_types is None:
        return TASK_TYPES
    if isinstance(task_types, str) or not isinstance(task_types, Sequence) or not task_types:
        raise ValueError(
            f"task_types is {task_types!r}; it must be a list of at least one of {_known()}, or None for all"
        )
    names = {_name(task_type) for task_type in task_types}
    return tuple(name for name in TASK_TYPES if name in names)


def check_split(split: str) -> None:
    """Raises ValueError where there is no split of that name."""
    if split not in SPLITS:
        raise ValueError(f"split is {split!r}; it must be one of {', '.join(SPLITS)}")


def _name(task_type: str | int) -> str:
    if isinstance(task_type, str) and task_type in TASK_TYPES:
        return task_type
    if isinstance(task_type, int) and not isinstance(task_type, bool) and 1 <= task_type <= len(TASK_TYPES):
        return TASK_TYPES[task_type - 1]
    raise ValueError(f"task_types holds {task_type!r}; known are {_known()}")


def _known() -> str:
    return ", ".join(f"{number} {name}" for number, name in enumerate(TASK_TYPES, start=1))
