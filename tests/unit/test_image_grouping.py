"""Pictures as anchor states: what noise does to them, and what must stay apart."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from rllib_gigpo.algorithms.gigpo import GiGPOConfig
from rllib_gigpo.connectors.anchor_states import AnchorStateGrouping, anchor_state_ids
from rllib_gigpo.connectors.image_grouping import block_means
from rllib_gigpo.env_adapters import embedded_model_path, make_env
from rllib_gigpo.env_adapters.gym_cards.drawing import formula_table, number_line
from rllib_gigpo.env_adapters.gym_cards.hands import RANKS, SUITS
from rllib_gigpo.env_adapters.sokoban.sokoban import Sokoban
from rllib_gigpo.images import ImageStore

pytestmark = pytest.mark.unit


def noisy(picture: np.ndarray, levels: int, copies: int) -> list[np.ndarray]:
    """Copies with noise of up to so many levels, independent from pixel to pixel."""
    rng = np.random.default_rng(levels)
    noise = rng.integers(-levels, levels + 1, (copies, *picture.shape))
    return list(np.clip(picture.astype(int) + noise, 0, 255).astype(np.uint8))


def levels_apart(pictures: list[np.ndarray]) -> float:
    """The least tolerance that lets two of them count as one."""
    means = [block_means(picture) for picture in pictures]
    return min(float(np.abs(one - other).max()) for one, other in combinations(means, 2))


def sokoban_pictures() -> list[np.ndarray]:
    """A walk through a level."""
    env = Sokoban(observation="image", max_steps=40)
    observation, _ = env.reset(options={"task": 3})
    pictures = [observation["image"]]
    for action in ["down", "down", "right", "up", "left", "down", "right", "right"] * 3:
        pictures.append(env.step(action)[0]["image"])
    return list({picture.tobytes(): picture for picture in pictures}.values())


def test_block_means_are_means_of_blocks_and_of_what_is_left_at_the_edges() -> None:
    picture = np.random.default_rng(0).integers(0, 256, (19, 24, 3), dtype=np.uint8)
    means = block_means(picture)
    assert means.shape == (3, 3, 3) and means.dtype == np.float32
    np.testing.assert_allclose(means[1, 2], picture[8:16, 16:24].mean((0, 1)), rtol=1e-6)
    np.testing.assert_allclose(means[2, 0], picture[16:19, 0:8].mean((0, 1)), rtol=1e-6)


def test_noisy_copies_of_a_state_are_one_state_with_a_tolerance_and_many_without() -> None:
    states = sokoban_pictures()
    assert len(states) > 5
    rows = [copy for state in states for copy in noisy(state, 4, 6)]
    group = [0] * len(rows)
    assert len(set(anchor_state_ids(rows, group).tolist())) == len(rows)
    assert anchor_state_ids(rows, group, image_tolerance=4).tolist() == np.repeat(np.arange(len(states)), 6).tolist()


def test_groups_of_noisy_pictures_do_not_depend_on_the_order_of_rows() -> None:
    rows = [copy for state in sokoban_pictures() for copy in noisy(state, 8, 4)]
    ids = anchor_state_ids(rows, [0] * len(rows), image_tolerance=2.5)
    order = np.random.default_rng(1).permutation(len(rows))
    shuffled = anchor_state_ids([rows[i] for i in order], [0] * len(rows), image_tolerance=2.5)
    assert len(set(zip(ids[order].tolist(), shuffled.tolist(), strict=True))) == len(set(ids.tolist()))


def test_tolerance_never_merges_rollout_groups_shapes_or_texts() -> None:
    picture = np.full((16, 16, 3), 100, np.uint8)
    lighter = picture + 1
    states = [
        {"text": "a", "image": picture},
        {"text": "a", "image": lighter},
        {"text": "b", "image": lighter},
        {"text": "a", "image": lighter[:15]},
        {"text": "a", "image": lighter.astype(np.int16)},
    ]
    assert anchor_state_ids(states, [0] * 5, image_tolerance=1).tolist() == [0, 0, 1, 2, 3]
    assert anchor_state_ids(states[:2], [0, 1], image_tolerance=1).tolist() == [0, 1]
    assert anchor_state_ids(states[:2], [0, 0], image_tolerance=0.5).tolist() == [0, 1]
    # Where all is text there is nothing to tolerate.
    assert anchor_state_ids(["a", "b"], [0, 0], image_tolerance=255).tolist() == [0, 1]


def test_two_pictures_in_a_state_must_both_be_alike() -> None:
    dark, grey, white = (np.full((8, 8, 3), level, np.uint8) for level in (0, 2, 255))
    states = [(dark, white), (grey, white), (dark, dark)]
    assert anchor_state_ids(states, [0] * 3, image_tolerance=2).tolist() == [0, 0, 1]


def test_in_published_sizes_every_state_stays_apart_at_a_tolerance_of_five() -> None:
    cards = [suit + rank for suit in SUITS for rank in RANKS]
    assert levels_apart([formula_table([card, "S2"], []) for card in cards]) > 5
    assert levels_apart([number_line(target, current) for target in range(6) for current in range(6)]) > 5
    assert levels_apart(sokoban_pictures()) > 5


def test_infos_of_image_environments_group_by_state_whatever_the_noise() -> None:
    """With "auto", `anchor_state` goes before the picture."""
    assert AnchorStateGrouping(image_tolerance=3).image_tolerance == 3
    for name in ("Sokoban", "EZPoints", "NumberLine", "Points24", "Blackjack"):
        env, told = make_env(name, observation="image"), make_env(name)
        assert env.reset(options={"task": 5})[1]["anchor_state"] == told.reset(options={"task": 5})[0]


@pytest.mark.parametrize("tolerance", [-1, 256, float("nan"), "4", True])
def test_an_impossible_tolerance_is_refused(tolerance: object) -> None:
    with pytest.raises(ValueError, match="image_tolerance"):
        anchor_state_ids([], [], image_tolerance=tolerance)
    with pytest.raises(ValueError, match="image_tolerance"):
        AnchorStateGrouping(image_tolerance=tolerance)
    config = GiGPOConfig().environment("EZPoints").language_model(model_path=str(embedded_model_path("EZPoints")))
    config.generation(max_prompt_tokens=160, max_response_tokens=32).training(image_tolerance=tolerance)
    with pytest.raises(ValueError, match="image_tolerance"):
        config.validate()


def test_stored_images_are_compared_as_their_pixels_are() -> None:
    store = ImageStore()
    pictures = noisy(sokoban_pictures()[0], 3, 3)
    states = [{"text": "", "image": store.add(picture)} for picture in [*pictures, pictures[0]]]
    assert anchor_state_ids(states, [0] * 4).tolist() == [0, 1, 2, 0]
    assert anchor_state_ids(states, [0] * 4, image_tolerance=3).tolist() == [0, 0, 0, 0]
