"""Sokoban in pictures: their form, that they show what the text shows, and `render`."""

from __future__ import annotations

import numpy as np
import pytest

from rllib_gigpo.env_adapters import make_env
from rllib_gigpo.env_adapters.sokoban.drawing import drawn
from rllib_gigpo.env_adapters.sokoban.rules import Board, Position
from rllib_gigpo.env_adapters.sokoban.sokoban import SYMBOLS, Sokoban

pytestmark = pytest.mark.unit

# Every kind of cell: a box, one on a target, a target, floor, wall, and the player on a target or beside it.
BOARD = Board(6, frozenset({7, 8, 9, 10, 13, 14, 15}), frozenset({8, 9, 13}))
POSITIONS = (Position(13, frozenset({7, 8})), Position(14, frozenset({7, 8})))


def tiles(picture: np.ndarray, size: int) -> list[bytes]:
    """The cells of a picture, row by row."""
    pixels = len(picture) // size
    grid = picture.reshape(size, pixels, size, pixels, 3).transpose(0, 2, 1, 3, 4)
    return [cell.tobytes() for cell in grid.reshape(size * size, -1)]


@pytest.mark.parametrize("cell_pixels", [8, 16, 28, 42])
def test_a_tile_is_a_symbol(cell_pixels: int) -> None:
    """Equal cells have equal tiles, different ones different tiles, wherever they are."""
    env = Sokoban(num_boxes=2, observation="image", cell_pixels=cell_pixels)
    env.reset(options={"task": 0})
    symbol_of_tile: dict[bytes, str] = {}
    for position in POSITIONS:
        env._level = env.level._replace(board=BOARD)
        env._position = position
        observation, info = env._observation(), env._info()
        for tile, symbol in zip(tiles(observation["image"], 6), info["anchor_state"].split(), strict=True):
            assert symbol_of_tile.setdefault(tile, symbol) == symbol
    assert sorted(symbol_of_tile.values()) == sorted(SYMBOLS)


def test_the_published_size_is_96_by_96_and_others_are_options() -> None:
    assert Sokoban(observation="image").observation_space["image"].shape == (96, 96, 3)
    env = Sokoban(observation="image", size=10, cell_pixels=28)
    observation, _ = env.reset(options={"task": 1})
    assert observation["image"].shape == env.observation_space["image"].shape == (280, 280, 3)
    assert env.observation_space.contains(observation) and observation["text"] == ""


def test_pictures_change_nothing_but_what_is_shown() -> None:
    shown, told = make_env("Sokoban", observation="image"), make_env("Sokoban")
    for task in range(3):
        _, info = shown.reset(options={"task": task})
        text, text_info = told.reset(options={"task": task})
        assert info == text_info | {"anchor_state": text}
        for action in ("up", "left", "jump", "down"):
            after, text_after = shown.step(action), told.step(action)
            assert after[1:4] == text_after[1:4] and after[4] == text_after[4] | {"anchor_state": text_after[0]}


def test_a_picture_belongs_to_who_got_it() -> None:
    """Tiles are drawn once; painting over one picture must not show in the next."""
    picture = drawn(BOARD, POSITIONS[0], 16)
    before = picture.copy()
    picture[:] = 0
    assert (drawn(BOARD, POSITIONS[0], 16) == before).all()


@pytest.mark.parametrize("name", ["Sokoban", "EZPoints", "NumberLine", "Points24", "Blackjack"])
def test_render_returns_the_picture_in_both_modes(name: str) -> None:
    for observation in ("text", "image"):
        env = make_env(name, observation=observation, render_mode="rgb_array")
        with pytest.raises(RuntimeError, match="before reset"):
            env.render()
        shown, info = env.reset(options={"task": 4})
        picture = env.render()
        assert picture.dtype == np.uint8 and picture.shape[2] == 3
        if observation == "image":
            assert (picture == shown["image"]).all()
        env.step(info["admissible_actions"][0])
        assert env.render().shape == picture.shape
    assert make_env(name).render() is None
    with pytest.raises(ValueError, match="render_mode is 'human'"):
        make_env(name, render_mode="human")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cell_pixels": 7}, "cell_pixels is 7; it must be an integer from 8 to 128"),
        ({"cell_pixels": 16.0}, "cell_pixels is 16.0"),
        ({"observation": "pixels"}, r"observation is 'pixels'; allowed are \['text', 'image'\]"),
    ],
)
def test_wrong_options_are_refused(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Sokoban(**options)
