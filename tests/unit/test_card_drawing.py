"""Pictures of the card games: their form, and that what differs in the game differs in the picture."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from rllib_gigpo.env_adapters import make_env
from rllib_gigpo.env_adapters.gym_cards.drawing import blackjack_table, formula_table, number_line, resized
from rllib_gigpo.env_adapters.gym_cards.hands import RANKS, SUITS

pytestmark = pytest.mark.unit

CARDS = [suit + rank for suit, rank in product(SUITS, RANKS)]


def distinct(images: list[np.ndarray]) -> int:
    return len({image.tobytes() for image in images})


@pytest.mark.parametrize(
    "image",
    [
        formula_table(["HT", "S2"], ["10", "+"]),
        formula_table(["HT", "S2", "DA", "CK"], []),
        number_line(4, 2),
        blackjack_table("CA", ["H5", "DQ"]),
    ],
    ids=["ezpoints", "points24", "numberline", "blackjack"],
)
def test_a_picture_is_rgb_of_300_by_300(image: np.ndarray) -> None:
    assert (image.shape, image.dtype) == ((300, 300, 3), np.uint8)
    assert len(np.unique(image @ np.array([1, 2**8, 2**16]))) > 2


def test_every_card_looks_different_wherever_it_lies() -> None:
    assert distinct([formula_table([card, "S2"], []) for card in CARDS]) == 52
    assert distinct([formula_table(["S2", "S2", "S2", card], []) for card in CARDS]) == 52
    assert distinct([blackjack_table(card, ["S2", "S2"]) for card in CARDS]) == 52
    # Nine cards overlap, and the last lies on top.
    assert distinct([blackjack_table("S2", [card, *["S2"] * 8]) for card in CARDS]) == 52
    assert distinct([blackjack_table("S2", ["S2"] * count) for count in range(2, 12)]) == 10


def test_every_formula_looks_different() -> None:
    cards = ["HT", "S2", "DA", "CK"]
    longest = [
        "10",
        "+",
        "(",
        "2",
        "*",
        "10",
        ")",
        "/",
        "(",
        "3",
        "-",
        "10",
        ")",
        *["(", ")", "+", "*", "-", "/", "10"],
    ]
    formulas = [longest[:length] for length in range(len(longest) + 1)] + [[*longest, "10"], [*longest, "_"]]
    images = [formula_table(cards, formula) for formula in formulas]
    assert distinct(images) == len(formulas)
    for image in images:
        assert (image[290:] == image[299, 299]).all() and (image[250:, 292:] == image[299, 299]).all(), "cut off"
    short = [formula_table(cards[:2], formula[:6]) for formula in formulas[:7]]
    assert distinct(short) == 7


def test_every_pair_of_numbers_looks_different() -> None:
    assert distinct([number_line(target, current) for target, current in product(range(6), repeat=2)]) == 36


def test_a_resized_picture_is_of_that_size_and_still_tells_cards_apart() -> None:
    images = [resized(formula_table([card, "S2"], []), 96) for card in CARDS]
    assert {image.shape for image in images} == {(96, 96, 3)} and distinct(images) == 52


@pytest.mark.parametrize(
    ("name", "caption", "action"),
    [
        ("EZPoints", "Formula: empty", "+"),
        ("Points24", "Formula: empty", "("),
        ("NumberLine", "", "+"),
        ("Blackjack", "", "hit"),
    ],
)
def test_an_environment_shows_the_picture_with_what_it_lacks(name: str, caption: str, action: str) -> None:
    shown, told = make_env(name, observation="image"), make_env(name)
    for task in range(5):
        observation, info = shown.reset(options={"task": task})
        text, text_info = told.reset(options={"task": task})
        assert observation["text"] == caption and observation["image"].shape == (300, 300, 3)
        assert info == text_info | {"anchor_state": text}
        after = shown.step(action)
        assert after[1:4] == told.step(action)[1:4]
        assert ("+" in after[0]["text"] or "(" in after[0]["text"]) == bool(caption)
