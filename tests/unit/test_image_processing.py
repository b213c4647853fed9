"""Image processing of the Qwen family without torchvision: patches, token counts, placeholders."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from transformers import Qwen2VLImageProcessorPil

from rllib_gigpo.vlm.image_processing import ImageProcessor, collapse_placeholders, expand_placeholders

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("processor")
    Qwen2VLImageProcessorPil(min_pixels=56 * 56, max_pixels=28 * 28 * 24).save_pretrained(path)
    return path


def random_image(height: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def test_patches_are_the_normalised_pixels_in_merge_order(directory: Path) -> None:
    image = random_image(56, 84)
    pixel_values, grid = ImageProcessor(directory).process(image)
    assert grid.tolist() == [1, 4, 6] and pixel_values.shape == (24, 3 * 2 * 14 * 14)
    mean, std = Qwen2VLImageProcessorPil.image_mean, Qwen2VLImageProcessorPil.image_std
    normalised = ((image / 255 - mean) / std).transpose(2, 0, 1)
    # The patches of a token of 2 × 2 follow each other, so the third one is the first of the second row of patches.
    third = np.repeat(normalised[:, None, 14:28, :14], 2, axis=1)
    np.testing.assert_allclose(pixel_values[2], third.reshape(-1), atol=1e-5)


@pytest.mark.parametrize(("height", "width", "tokens"), [(56, 56, 4), (30, 30, 4), (84, 112, 12), (300, 300, 16)])
def test_token_counts_follow_the_pixel_limits(directory: Path, height: int, width: int, tokens: int) -> None:
    processor = ImageProcessor(directory)
    grid = processor.process(random_image(height, width)).grid_thw
    assert processor.num_tokens(height, width) == tokens == grid.prod() // 4


def test_a_read_only_array_from_another_memory_layout_is_processed(directory: Path) -> None:
    image = random_image(56, 84)
    other = np.asfortranarray(image)
    other.flags.writeable = False
    processor = ImageProcessor(directory)
    np.testing.assert_array_equal(processor.process(other).pixel_values, processor.process(image).pixel_values)


# Where an image is resized, torchvision and Pillow round to levels that are one apart: 0.015, normalised.
@pytest.mark.parametrize(("height", "width", "tolerance"), [(56, 84, 1e-5), (30, 30, 0.016), (300, 300, 0.016)])
def test_patches_equal_those_of_the_official_processor(
    directory: Path, height: int, width: int, tolerance: float
) -> None:
    pytest.importorskip("torchvision", exc_type=ImportError)
    from transformers import Qwen2VLImageProcessor

    image = random_image(height, width)
    official = Qwen2VLImageProcessor.from_pretrained(str(directory))(images=[Image.fromarray(image)])
    ours = ImageProcessor(directory).process(image)
    np.testing.assert_array_equal(ours.grid_thw, official["image_grid_thw"][0])
    np.testing.assert_allclose(ours.pixel_values, official["pixel_values"], atol=tolerance, rtol=0)


def test_placeholders_expand_and_collapse() -> None:
    ids = np.array([1, 9, 2, 9, 3], np.int32)
    expanded = expand_placeholders(ids, [3, 1], image_token_id=9)
    assert expanded.tolist() == [1, 9, 9, 9, 2, 9, 3] and expanded.dtype == np.int32
    np.testing.assert_array_equal(collapse_placeholders(expanded, [3, 1], image_token_id=9), ids)
    np.testing.assert_array_equal(collapse_placeholders(ids[:1], [], image_token_id=9), ids[:1])


def test_a_prompt_with_more_or_fewer_placeholders_than_images_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"2 image placeholders .* for 1 images"):
        expand_placeholders(np.array([9, 1, 9]), [4], image_token_id=9)
    with pytest.raises(ValueError, match=r"1 image placeholders .* for 2 images"):
        expand_placeholders(np.array([9, 1]), [4, 4], image_token_id=9)
    with pytest.raises(ValueError, match=r"has 3 image tokens .* take 4"):
        collapse_placeholders(np.array([9, 9, 9]), [4], image_token_id=9)


def test_a_directory_without_an_image_processor_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"has no image processor \(preprocessor_config.json"):
        ImageProcessor(tmp_path)


def test_impossible_pixel_limits_are_an_error(tmp_path: Path) -> None:
    Qwen2VLImageProcessorPil(min_pixels=50, max_pixels=100).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="pixel limits 50 and 100"):
        ImageProcessor(tmp_path)
