"""A small family of ALFWorld's games that a tiny language model can learn on a CPU."""

from __future__ import annotations

from typing import Any

from rllib_gigpo.env_adapters.alfworld.alfworld_env import ALFWorld


class ALFWorldTiny(ALFWorld):
    """ALFWorld with other defaults: rooms made up with four receptacles, and one task, to put something somewhere.

    Everything else is as in `ALFWorld`, whose options it takes, all but `data`. Without mistakes an episode takes four
    to ten steps, most of them for the search.
    """

    def __init__(
        self,
        *,
        num_receptacles: int = 4,
        num_objects: int = 2,
        max_steps: int = 15,
        anchor_state: str = "game",
        **options: Any,
    ):
        super().__init__(
            task_types=options.pop("task_types", ["pick_and_place_simple"]),
            num_receptacles=num_receptacles,
            num_objects=num_objects,
            max_steps=max_steps,
            anchor_state=anchor_state,
            **options,
        )
