"""Handles of images: equal by content, stored once, light where they travel; and what bad images say."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from rllib_gigpo.connectors.anchor_states import anchor_state_ids
from rllib_gigpo.images import (
    ImageStore,
    check_image,
    image_key,
    observation_image,
    observation_key,
    observation_text,
    stored_observation,
)
from rllib_gigpo.rows import TokenRows
from rllib_gigpo.vlm.image_files import read_image

pytestmark = pytest.mark.unit


def picture(value: int, height: int = 4, width: int = 6) -> np.ndarray:
    return np.full((height, width, 3), value, np.uint8)


def test_equal_content_is_one_handle_and_one_copy() -> None:
    store = ImageStore()
    own = picture(1)
    first, again, other = store.add(own), store.add(picture(1)), store.add(picture(2))
    assert first is again and len(store) == 2
    own[:] = 9
    assert np.asarray(first).max() == 1
    assert not np.asarray(first).flags.writeable
    assert first != other and first == ImageStore().add(picture(1))
    assert (first.height, first.width) == (4, 6)


def test_keys_depend_on_shape_and_content_and_not_on_the_layout_in_memory() -> None:
    image = np.random.default_rng(0).integers(0, 256, (6, 4, 3), dtype=np.uint8)
    assert image_key(image) == image_key(np.asfortranarray(image)) != image_key(image.reshape(4, 6, 3))


def test_handles_of_a_group_are_pickled_with_each_image_once() -> None:
    store = ImageStore()
    handles = [store.add(picture(value, 100, 100)) for value in (1, 2, 1, 2, 1)]
    pickled = pickle.dumps(handles)
    assert len(pickled) < 2 * 30_000 + 2_000
    copies = pickle.loads(pickled)
    assert copies == handles and copies[0].store is copies[1].store
    np.testing.assert_array_equal(np.asarray(copies[1]), picture(2, 100, 100))


def test_observations_keep_their_text_and_are_compared_by_content() -> None:
    store = ImageStore()
    observation = stored_observation({"text": "a", "image": picture(1)}, store)
    same = stored_observation({"text": "a", "image": picture(1)}, store)
    assert observation_text(observation) == "a" and observation_image(observation) == store.add(picture(1))
    assert observation_key(observation) == observation_key(same) and hash(observation_key(observation))
    other = stored_observation({"text": "b", "image": picture(1)}, store)
    assert observation_key(observation) != observation_key(other)
    assert stored_observation("text", store) == observation_text("text") == observation_key("text") == "text"
    assert observation_image("text") is None and observation_image({"x": 1}) is None


def test_anchor_states_are_images_and_texts() -> None:
    stores = ImageStore(), ImageStore()
    states = [
        stored_observation({"text": text, "image": picture(value)}, stores[group])
        for text, value, group in (("", 1, 0), ("", 2, 0), ("", 1, 0), ("a", 1, 0), ("", 1, 1))
    ]
    assert anchor_state_ids(states, [0, 0, 0, 0, 1]).tolist() == [0, 1, 0, 2, 3]


def test_rows_keep_the_images_of_their_prompts() -> None:
    store = ImageStore()
    one, two = store.add(picture(1)), store.add(picture(2))
    tokens = [np.array([1])] * 4
    images: list[tuple] = [(one,), (), (one, two), (two,)]
    rows = TokenRows.from_lists(tokens, tokens, [np.zeros(1)] * 4, images=images)
    assert list(rows.take(np.array([2, 0])).images) == [(one, two), (one,)]
    assert list(TokenRows.concat([rows, rows]).images) == images * 2
    # All with as many images, of which numpy would make a table.
    assert rows.take(np.array([0, 3])).images.shape == (2,)
    assert TokenRows.from_lists(tokens[:2], tokens[:2], [np.zeros(1)] * 2, images=[(one,), (two,)]).images.shape == (2,)
    assert TokenRows.from_lists(tokens, tokens, [np.zeros(1)] * 4, images=[()] * 4).images is None


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (np.zeros((8, 8, 3), np.float32), "not float32: scale it"),
        (np.zeros((8, 8, 4), np.uint8), r"not of shape \(8, 8, 4\)"),
        (np.zeros((8, 8), np.uint8), r"not of shape \(8, 8\)"),
        (np.zeros((0, 8, 3), np.uint8), "at least one pixel"),
        (np.zeros((1, 300, 3), np.uint8), "too narrow"),
        (Image.new("RGB", (8, 8)), "not a Image"),
    ],
)
def test_a_bad_image_is_one_clear_error(image: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_image(image)


def test_image_files_are_read_as_rgb_and_broken_ones_are_named(tmp_path: Path) -> None:
    file = tmp_path / "picture.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 30, 4), dtype=np.uint8), "RGBA").save(file)
    image = read_image(file)
    check_image(image)
    assert image.shape == (40, 30, 3)
    file.write_bytes(file.read_bytes()[:-2000])
    with pytest.raises(ValueError, match=r"picture\.png cannot be read as an image: .*truncated"):
        read_image(file)
    with pytest.raises(ValueError, match=r"none\.png cannot be read as an image"):
        read_image(tmp_path / "none.png")
