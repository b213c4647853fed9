"""A small family of ALFWorld's games that a tiny language model can learn on a CPU."""

from __future__ import annotations

from typing import Any

from rllib_gigpo.env_adapters.alfworld.alfworld_env import ALFWorld


class ALFWorldTiny(ALFWorld):
    """ALFWorld with other defaults: rooms made up with three receptacles, and one task, to put something somewhere.

    Everything else is as in `ALFWorld`, whose options it takes. Without mistakes an episode takes four to eight steps,
    half of them for the search. No memory is needed for them: an object that is not where one stands is in the other
    place that is not its destination.
    """

    def __init__(
        self,
        *,
        num_receptacles: int = 3,
        num_objects: int = 1,
        max_steps: int = 8,
        anchor_state: str = "game",
        inadmissible_is_invalid: bool = True,
        **options: Any,
    ):
        super().__init__(
            task_types=options.pop("task_types", ["pick_and_place_simple"]),
            num_receptacles=num_receptacles,
            num_objects=num_objects,
            max_steps=max_steps,
            anchor_state=anchor_state,
            inadmissible_is_invalid=inadmissible_is_invalid,
            **options,
        )
