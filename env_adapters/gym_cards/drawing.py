"""Pictures of the card games in the published layout, drawn from shapes: no picture files, no system fonts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from PIL import Image, ImageDraw, ImageFont

SIZE = 300
_TABLE = "#35654d"
_RED, _BLACK = "#c00000", "#000000"


def formula_table(cards: Sequence[str], formula: Sequence[str]) -> np.ndarray:
    """Two or four cards side by side and the formula below them, uint8[300, 300, 3].

    Args:
        cards: Names, suit and rank: "HT" is the ten of hearts.
        formula: Its parts.
    """
    picture = Image.new("RGB", (SIZE, SIZE), _TABLE)
    width = int(SIZE / len(cards) * 0.9)
    height = width * 7 // 5
    for index, card in enumerate(cards):
        picture.paste(_card(card, width, height), (5 + int(index * width * 1.1), (SIZE - height) // 2))
    draw = ImageDraw.Draw(picture)
    if len(cards) <= 2:
        draw.text((10, 258), " ".join(["Formula:", *formula]), fill="white", font=_font(20))
    else:
        draw.text((10, 210), "Formula:", fill="white", font=_font(16))
        draw.text((10, 240), _wrapped(formula, SIZE - 20, 16), fill="white", font=_font(16))
    return np.asarray(picture)


def number_line(target: int, current: int) -> np.ndarray:
    """The two numbers in words, uint8[300, 300, 3]."""
    picture = Image.new("RGB", (SIZE, SIZE), "white")
    draw = ImageDraw.Draw(picture)
    for y, text in ((60, f"Target: {target}"), (180, f"Current: {current}")):
        draw.text((30, y), text, fill="black", font=_font(36), stroke_width=1)
    return np.asarray(picture)


def blackjack_table(dealer_card: str, player_cards: Sequence[str]) -> np.ndarray:
    """The dealer's open card beside a covered one, the player's cards below, uint8[300, 300, 3].

    From the fifth card on the player's overlap, so that the corner of each remains to be seen.
    """
    picture = Image.new("RGB", (SIZE, SIZE), _TABLE)
    draw = ImageDraw.Draw(picture)
    width, height, left = 70, 98, 5
    draw.text((left, 5), "Dealer", fill="white", font=_font(16), stroke_width=0.5)
    picture.paste(_card(dealer_card, width, height), (left, 25))
    picture.paste(_covered_card(width, height), (78, 25))
    draw.text((left, 130), "Player", fill="white", font=_font(16), stroke_width=0.5)
    step = min(width + 4.0, (SIZE - 2 * left - width) / max(len(player_cards) - 1, 1))
    for index, card in enumerate(player_cards):
        picture.paste(_card(card, width, height), (left + int(index * step), 150))
    return np.asarray(picture)


def resized(image: np.ndarray, size: int) -> np.ndarray:
    """`image`, uint8[300, 300, 3], as uint8[size, size, 3]."""
    return np.asarray(Image.fromarray(image).resize((size, size), Image.Resampling.LANCZOS))


@lru_cache(maxsize=256)
def _card(name: str, width: int, height: int) -> Image.Image:
    suit, rank = name[0], "10" if name[1] == "T" else name[1]
    colour = _RED if suit in "HD" else _BLACK
    picture = Image.new("RGB", (width, height), _TABLE)
    draw = ImageDraw.Draw(picture)
    draw.rounded_rectangle((0, 0, width - 1, height - 1), width // 13, fill="white", outline="black", width=2)
    font, margin = _font(width * 4 // 15), width // 13
    draw.text((margin, margin // 2), rank, fill=colour, font=font)
    draw.text((width - margin, height - margin), rank, fill=colour, font=font, anchor="rs")
    _draw_suit(draw, suit, x=width / 2, y=height / 2, unit=width / 135, colour=colour)
    return picture


def _draw_suit(draw: ImageDraw.ImageDraw, suit: str, *, x: float, y: float, unit: float, colour: str) -> None:
    """A heart, spade, diamond or club around (x, y), about 60 units wide and high."""

    def polygon(*points: tuple[float, float]) -> None:
        draw.polygon([(x + dx * unit, y + dy * unit) for dx, dy in points], fill=colour)

    def circle(dx: float, dy: float, radius: float) -> None:
        cx, cy, r = x + dx * unit, y + dy * unit, radius * unit
        draw.ellipse((cx - r, cy - r, cx + r, cy + r), fill=colour)

    if suit == "D":
        polygon((0, -30), (22, 0), (0, 30), (-22, 0))
    elif suit == "C":
        for dx, dy in ((0, -16), (-16, 6), (16, 6)):
            circle(dx, dy, 14)
    else:
        down = 1 if suit == "H" else -1
        polygon((-30, -8 * down), (30, -8 * down), (0, 30 * down))
        circle(-15, -8 * down, 15)
        circle(15, -8 * down, 15)
    if suit in "CS":
        polygon((0, 0), (-8, 34), (8, 34))


@lru_cache(maxsize=8)
def _covered_card(width: int, height: int) -> Image.Image:
    picture = Image.new("RGB", (width, height), _TABLE)
    draw = ImageDraw.Draw(picture)
    draw.rounded_rectangle((0, 0, width - 1, height - 1), width // 13, fill="#7a1f1f", outline="black", width=2)
    draw.rectangle((7, 7, width - 8, height - 8), outline="white", width=2)
    return picture


def _wrapped(parts: Sequence[str], width: int, font_size: int) -> str:
    """The parts in lines of at most `width` pixels."""
    lines: list[str] = []
    for part in parts:
        if lines and _font(font_size).getlength(f"{lines[-1]} {part}") <= width:
            lines[-1] += f" {part}"
        else:
            lines.append(part)
    return "\n".join(lines)


@lru_cache(maxsize=16)
def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)
