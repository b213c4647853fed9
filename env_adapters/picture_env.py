"""What environments share that show their state as text or as a picture."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Literal, get_args

import numpy as np
from gymnasium import spaces

from rllib_gigpo.env_adapters.generated_tasks import GeneratedTaskEnv, check_choice, text_space

ObservationMode = Literal["text", "image"]


class PictureEnv(GeneratedTaskEnv[Any]):
    """An environment whose observation is text, or with `observation="image"` a dict of

        "text": what the picture lacks; str, "" where it lacks nothing,
        "image": the picture, uint8[H, W, 3].

    Then `info["anchor_state"]` holds the text observation: all that counts of the state, however it is drawn.

    With `render_mode="rgb_array"`, `render()` returns the picture, whatever the observation is.

    Args:
        max_steps: Steps after which an episode is truncated.
        observation: "text" or "image".
        text: Space of the text observation.
        caption: Space of the text beside a picture.
        picture_size: (height, width) of the picture.
        render_mode: None or "rgb_array".

    Raises:
        ValueError: An option has a value that is not allowed.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 4}  # noqa: RUF012 (gymnasium's own)

    def __init__(
        self,
        *,
        max_steps: int,
        observation: ObservationMode,
        text: spaces.Text,
        caption: spaces.Text | None = None,
        picture_size: tuple[int, int],
        render_mode: str | None,
    ):
        super().__init__(max_steps=max_steps)
        check_choice("observation", observation, get_args(ObservationMode))
        check_choice("render_mode", render_mode, (None, *self.metadata["render_modes"]))
        self.render_mode = render_mode
        self._shows_image = observation == "image"
        self.action_space = text_space(32)
        self.observation_space: spaces.Space[Any] = text
        if self._shows_image:
            image = spaces.Box(0, 255, (*picture_size, 3), np.uint8)
            self.observation_space = spaces.Dict({"text": caption or text, "image": image})

    @abstractmethod
    def _text(self) -> str:
        """The state as text."""

    @abstractmethod
    def _picture(self) -> np.ndarray:
        """The state as a picture, uint8[H, W, 3]."""

    def _caption(self) -> str:
        """What goes as text with the picture."""
        return ""

    @abstractmethod
    def _game_info(self) -> dict[str, Any]:
        """The info, but for `anchor_state`."""

    def render(self) -> Any:  # gymnasium binds its own type variable here
        """The picture of now, uint8[H, W, 3], with `render_mode="rgb_array"`; else None.

        Raises:
            RuntimeError: The environment was never reset.
        """
        return self._picture() if self.render_mode == "rgb_array" else None

    def _observation(self) -> Any:
        return {"text": self._caption(), "image": self._picture()} if self._shows_image else self._text()

    def _info(self) -> dict[str, Any]:
        return self._game_info() | ({"anchor_state": self._text()} if self._shows_image else {})
