"""What the four games of Gym Cards share: the observation as text or as an image, and the published reward schemes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, Literal, get_args

import numpy as np
from gymnasium import spaces

from rllib_gigpo.env_adapters.generated_tasks import GeneratedTaskEnv, check_choice, check_integer, text_space
from rllib_gigpo.env_adapters.gym_cards.drawing import SIZE, resized

ObservationMode = Literal["text", "image"]
RewardScheme = Literal["verl-agent", "rl4vlm"]


class CardEnv(GeneratedTaskEnv[Any]):
    """A card game whose observation is text, or with `observation="image"` a dict of

        "text": what the picture lacks; str, "" where it lacks nothing,
        "image": the picture, uint8[image_size, image_size, 3].

    Then `info["anchor_state"]` holds the text observation: all that counts of the state, whatever the cards look like.

    Args:
        max_steps: Steps after which an episode is truncated.
        observation: "text" or "image".
        image_size: Height and width of the picture; drawn with 300 pixels, as published, and resized to any other.
        max_length: Most characters of the text observation.

    Raises:
        ValueError: An option has a value that is not allowed.
    """

    def __init__(self, *, max_steps: int, observation: ObservationMode, image_size: int, max_length: int):
        super().__init__(max_steps=max_steps)
        check_choice("observation", observation, get_args(ObservationMode))
        check_integer("image_size", image_size, lowest=32, highest=4096)
        self._shows_image = observation == "image"
        self._image_size = image_size
        self.action_space = text_space(32)
        self.observation_space: spaces.Space[Any] = text_space(max_length, min_length=1)
        if self._shows_image:
            image = spaces.Box(0, 255, (image_size, image_size, 3), np.uint8)
            self.observation_space = spaces.Dict({"text": text_space(max_length), "image": image})

    @abstractmethod
    def _text(self) -> str:
        """The state as text."""

    @abstractmethod
    def _image(self) -> np.ndarray:
        """The state as a picture, uint8[300, 300, 3]."""

    def _caption(self) -> str:
        """What goes as text with the picture."""
        return ""

    @abstractmethod
    def _game_info(self) -> dict[str, Any]:
        """The info, but for `anchor_state`."""

    def _observation(self) -> Any:
        if not self._shows_image:
            return self._text()
        image = self._image()
        return {
            "text": self._caption(),
            "image": image if self._image_size == SIZE else resized(image, self._image_size),
        }

    def _info(self) -> dict[str, Any]:
        return self._game_info() | ({"anchor_state": self._text()} if self._shows_image else {})


def check_reward_scheme(reward_scheme: Any, schemes: Iterable[str] = get_args(RewardScheme)) -> None:
    """Raises ValueError where it is none of `schemes`."""
    check_choice("reward_scheme", reward_scheme, tuple(schemes))
