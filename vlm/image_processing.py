"""From pixels to what a vision tower of the Qwen family reads, and from one placeholder an image to one per token.

The work is done by transformers' own PIL image processor, in every process the same one, whether torchvision is
installed or not: the two round differently when they resize.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rllib_gigpo.broken_packages import check_torchvision
from rllib_gigpo.images import check_image

# The one that an image processor is saved as by itself, and the one that it is a part of where a processor was saved.
_CONFIG_FILES = ("preprocessor_config.json", "processor_config.json")


class ProcessedImage(NamedTuple):
    """What a vision tower reads of one image.

    Attributes:
        pixel_values: float32[patches, channels · temporal_patch_size · patch_size²], in the order of the merged tokens.
        grid_thw: int64[3], the patches in time (1), height and width; their product is `patches`.
    """

    pixel_values: np.ndarray
    grid_thw: np.ndarray


class ImageProcessor:
    """The image processor of a model directory, which says how large images are made and how they are normalised.

    An image is resized so that both sides are multiples of `token_pixels`, with pixels within the limits of the
    directory, and the aspect ratio as nearly as possible what it was (Wang et al. 2024, Qwen2-VL); one that fits
    already stays as it is.

    Args:
        model_directory: A Hugging Face model directory.

    Attributes:
        token_pixels: Height and width of what becomes one token of the language model.
        max_tokens: Of an image; but a narrow one is never made less than a token wide, and may take more.

    Raises:
        ValueError: The directory has no image processor, or one of another family, or its limits are impossible.
        ImportError: A broken torchvision (see `check_torchvision`).
    """

    def __init__(self, model_directory: str | Path):
        if not any((Path(model_directory) / name).is_file() for name in _CONFIG_FILES):
            raise ValueError(
                f"model directory {model_directory} has no image processor ({' or '.join(_CONFIG_FILES)}); copy "
                "the file from the model that this one was made from, or write one with "
                "`image_processor.save_pretrained(directory)`"
            )
        check_torchvision()
        from transformers import AutoImageProcessor

        self._processor = AutoImageProcessor.from_pretrained(
            str(model_directory), backend="pil", trust_remote_code=False, local_files_only=True
        )
        if not hasattr(self._processor, "get_number_of_image_patches") or not hasattr(self._processor, "merge_size"):
            raise ValueError(
                f"the image processor of {model_directory} is a {type(self._processor).__name__}, which does not cut "
                "images into the patches of the Qwen family"
            )
        self.merge_size: int = self._processor.merge_size
        self.token_pixels: int = self._processor.patch_size * self.merge_size
        lowest, highest = self._processor.size["shortest_edge"], self._processor.size["longest_edge"]
        if not 0 < lowest <= highest or highest < self.token_pixels**2:
            raise ValueError(
                f"the image processor of {model_directory} has the pixel limits {lowest} and {highest} (shortest_edge, "
                f"longest_edge): they must be positive, in this order, and the second at least one token, "
                f"{self.token_pixels}² = {self.token_pixels**2}"
            )
        self.max_tokens: int = highest // self.token_pixels**2

    def num_tokens(self, height: int, width: int) -> int:
        """How many tokens of the language model an image of this size takes, without looking at one."""
        patches = self._processor.get_number_of_image_patches(height, width)
        return int(patches) // self.merge_size**2

    def process(self, image: np.ndarray) -> ProcessedImage:
        """What the vision tower reads of `image`, uint8[H, W, 3].

        Raises:
            ValueError: It is no such image, see `check_image`.
        """
        check_image(image)
        features = self._processor.preprocess([image], input_data_format="channels_last", return_tensors="np")
        return ProcessedImage(features["pixel_values"], features["image_grid_thw"][0])


def expand_placeholders(prompt_ids: np.ndarray, num_tokens: Sequence[int], image_token_id: int) -> np.ndarray:
    """Prompt ids with one placeholder per token of each image, from ids with one placeholder per image.

    Args:
        prompt_ids: int32[P], as the chat template writes them.
        num_tokens: How many tokens each of the N images takes, in the order of the prompt.
        image_token_id: The placeholder.

    Returns:
        int32[P - N + sum(num_tokens)].

    Raises:
        ValueError: The prompt has not N placeholders.
    """
    placeholders = np.flatnonzero(prompt_ids == image_token_id)
    if len(placeholders) != len(num_tokens):
        raise ValueError(
            f"the prompt has {len(placeholders)} image placeholders (token id {image_token_id}) for "
            f"{len(num_tokens)} images; the chat template must write exactly one for each"
        )
    repeats = np.ones(len(prompt_ids), np.int64)
    repeats[placeholders] = num_tokens
    return np.repeat(np.asarray(prompt_ids, np.int32), repeats)


def collapse_placeholders(prompt_ids: np.ndarray, num_tokens: Sequence[int], image_token_id: int) -> np.ndarray:
    """The inverse of `expand_placeholders`, for engines that expand by themselves: int32[P'] to int32[P].

    Raises:
        ValueError: The placeholders are not as many as the images take.
    """
    is_placeholder = np.asarray(prompt_ids) == image_token_id
    if int(is_placeholder.sum()) != sum(num_tokens):
        raise ValueError(
            f"the prompt has {int(is_placeholder.sum())} image tokens (token id {image_token_id}), but its "
            f"{len(num_tokens)} images take {sum(num_tokens)}"
        )
    keep = ~is_placeholder
    # The k-th placeholder is the first of an image's where as many come before it as earlier images take.
    firsts = np.cumsum([0, *num_tokens])[: len(num_tokens)]
    keep[np.flatnonzero(is_placeholder)[firsts]] = True
    return np.asarray(prompt_ids, np.int32)[keep]
