"""Warm start on user messages, with or without a picture, and the responses that a model is to give to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, overload

import numpy as np
from transformers import PreTrainedModel, PreTrainedTokenizerBase, Qwen2VLImageProcessorPil

from rllib_gigpo.agent_formats.chat import encode_prompt, encode_prompt_with_images
from rllib_gigpo.agent_formats.image_marks import image_mark
from rllib_gigpo.rl_modules.embedded.tokenizer import IMAGE_PAD
from rllib_gigpo.rl_modules.embedded.warm_start import Pixels, warm_start


class PictureRow(NamedTuple):
    """A picture, uint8[H, W, 3], the user message that goes with it, and the response."""

    picture: np.ndarray
    user_message: str
    response: str


def imitate(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    rows: Sequence[tuple[str, str]],
    *,
    steps: int,
    learning_rate: float,
    seed: int,
) -> list[float]:
    """Warms `model` up in place on rows of user message and response, see `warm_start`.

    Returns:
        The loss of every step, in nats per response token.

    Raises:
        ValueError: There are no rows, or the tokenizer has no chat template.
    """
    return warm_start(
        model,
        prompts=[encode_prompt(tokenizer, user_message) for user_message, _ in rows],
        responses=[_encode_response(tokenizer, response) for _, response in rows],
        steps=steps,
        learning_rate=learning_rate,
        seed=seed,
    )


def imitate_pictures(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    image_processor: Qwen2VLImageProcessorPil,
    rows: Sequence[PictureRow],
    *,
    steps: int,
    learning_rate: float,
    seed: int,
) -> list[float]:
    """As `imitate`, for a vision-language model; the picture comes before the text of the message."""
    patches = {row.picture.shape: _num_tokens(image_processor, row.picture) for row in rows}
    return warm_start(
        model,
        prompts=[encode_picture_prompt(tokenizer, row.user_message, patches[row.picture.shape]) for row in rows],
        responses=[_encode_response(tokenizer, row.response) for row in rows],
        images=_Processed(image_processor, rows),
        steps=steps,
        learning_rate=learning_rate,
        seed=seed,
    )


def encode_picture_prompt(tokenizer: PreTrainedTokenizerBase, user_message: str, num_tokens: int) -> np.ndarray:
    """Token ids, int32[P], of a conversation with one picture of `num_tokens` tokens and a text after it."""
    ids, _ = encode_prompt_with_images(tokenizer, image_mark(0) + user_message, 1)
    is_picture = ids == tokenizer.convert_tokens_to_ids(IMAGE_PAD)
    return np.repeat(ids, np.where(is_picture, num_tokens, 1))


class _Processed(Sequence[Pixels]):
    """The pictures of `rows` as the vision tower reads them, made when they are asked for: all would take gigabytes."""

    def __init__(self, image_processor: Qwen2VLImageProcessorPil, rows: Sequence[PictureRow]):
        self._image_processor = image_processor
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> Pixels: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Pixels]: ...
    def __getitem__(self, index: int | slice) -> Pixels | Sequence[Pixels]:
        if isinstance(index, slice):
            return _Processed(self._image_processor, self._rows[index])
        features = self._image_processor(self._rows[index].picture, return_tensors="np")
        return Pixels(features["pixel_values"], features["image_grid_thw"][0])


def _num_tokens(image_processor: Qwen2VLImageProcessorPil, picture: np.ndarray) -> int:
    height, width, _ = picture.shape
    return int(image_processor.get_number_of_image_patches(height, width)) // image_processor.merge_size**2


def _encode_response(tokenizer: PreTrainedTokenizerBase, response: str) -> np.ndarray:
    """Token ids, int32[R], end-of-sequence token included."""
    return np.asarray([*tokenizer.encode(response, add_special_tokens=False), tokenizer.eos_token_id], np.int32)
