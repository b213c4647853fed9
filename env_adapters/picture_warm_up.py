"""How embedded vision-language models are warmed up: first the vision tower alone, then the whole model.

The vision tower learns to turn each token of a picture into the embeddings of words for what it shows. Then the model
imitates players on rows of picture, message and response, one stage after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from rllib_gigpo.rl_modules.embedded import (
    NamedPicture,
    PictureRow,
    build_image_processor,
    build_tokenizer,
    build_vision_language_model,
    imitate_pictures,
    save_vision_language_model,
    teach_to_name,
)


class Stage(NamedTuple):
    """Rows to imitate, for how many optimizer steps, and the peak of the learning rate."""

    rows: Sequence[PictureRow]
    steps: int
    learning_rate: float


@dataclass(frozen=True)
class Vision:
    """How pictures are read, and how the vision tower learns to.

    Attributes:
        token_pixels: Height and width of what becomes one token.
        max_pixels: Larger pictures are made smaller.
        naming_steps, naming_learning_rate: Of `teach_to_name`.
    """

    token_pixels: int
    max_pixels: int
    naming_steps: int
    naming_learning_rate: float


def build(
    directory: Path, vision: Vision, pictures: Sequence[NamedPicture], stages: Sequence[Stage], *, seed: int
) -> None:
    """Builds tokenizer and model, warms the model up, and writes both to `directory`, with the image processor."""
    tokenizer = build_tokenizer(
        [text for stage in stages for row in stage.rows for text in (row.user_message, row.response)], with_images=True
    )
    image_processor = build_image_processor(token_pixels=vision.token_pixels, max_pixels=vision.max_pixels)
    model = build_vision_language_model(tokenizer, seed=seed, token_pixels=vision.token_pixels)
    losses = teach_to_name(
        model,
        tokenizer,
        image_processor,
        pictures,
        steps=vision.naming_steps,
        learning_rate=vision.naming_learning_rate,
        seed=seed,
    )
    print(f"{vision.naming_steps} steps on {len(pictures)} pictures: {losses[0]:.3f} to {losses[-1]:.3f} apart")
    for rows, steps, learning_rate in stages:
        losses = imitate_pictures(
            model, tokenizer, image_processor, rows, steps=steps, learning_rate=learning_rate, seed=seed
        )
        print(f"{steps} steps on {len(rows)} rows: loss {losses[0]:.3f} to {losses[-1]:.3f} nats per token")
    save_vision_language_model(directory, model, tokenizer, image_processor)
    print(f"{directory}: {model.num_parameters():,} parameters, {len(tokenizer)} tokens")
