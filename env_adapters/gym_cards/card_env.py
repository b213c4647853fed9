"""What the four games of Gym Cards share: the observation as text or as an image, and the published reward schemes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, Literal, get_args

import numpy as np

from rllib_gigpo.env_adapters.generated_tasks import check_choice, check_integer, text_space
from rllib_gigpo.env_adapters.gym_cards.drawing import SIZE, resized
from rllib_gigpo.env_adapters.picture_env import ObservationMode, PictureEnv

RewardScheme = Literal["verl-agent", "rl4vlm"]


class CardEnv(PictureEnv):
    """A card game; its picture is uint8[image_size, image_size, 3].

    Args:
        max_steps: Steps after which an episode is truncated.
        observation: "text" or "image".
        image_size: Height and width of the picture; drawn with 300 pixels, as published, and resized to any other.
        render_mode: None or "rgb_array".
        max_length: Most characters of the text observation.

    Raises:
        ValueError: An option has a value that is not allowed.
    """

    def __init__(
        self,
        *,
        max_steps: int,
        observation: ObservationMode,
        image_size: int,
        render_mode: str | None,
        max_length: int,
    ):
        check_integer("image_size", image_size, lowest=32, highest=4096)
        super().__init__(
            max_steps=max_steps,
            observation=observation,
            text=text_space(max_length, min_length=1),
            caption=text_space(max_length),
            picture_size=(image_size, image_size),
            render_mode=render_mode,
        )
        self._image_size = image_size

    @abstractmethod
    def _image(self) -> np.ndarray:
        """The state as a picture of the published size, uint8[300, 300, 3]."""

    def _picture(self) -> np.ndarray:
        image = self._image()
        return image if self._image_size == SIZE else resized(image, self._image_size)


def check_reward_scheme(reward_scheme: Any, schemes: Iterable[str] = get_args(RewardScheme)) -> None:
    """Raises ValueError where it is none of `schemes`."""
    check_choice("reward_scheme", reward_scheme, tuple(schemes))
