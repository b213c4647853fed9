"""Pictures of Sokoban, drawn from shapes: no picture files."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from PIL import Image, ImageDraw

from rllib_gigpo.env_adapters.sokoban.rules import Board, Position

CELL_PIXELS = 16  # of gym-sokoban
SMALLEST_CELL, LARGEST_CELL = 8, 128

_WALL, _FLOOR, _DARK = "#555555", "#d8d0c0", "#222222"
_TARGET, _BOX, _BOX_ON_TARGET, _PLAYER = "#d02020", "#c98a2b", "#3a9d3a", "#2040c0"


def drawn(board: Board, position: Position, cell_pixels: int) -> np.ndarray:
    """The grid as a picture, uint8[board.size · cell_pixels, board.size · cell_pixels, 3]."""
    rows = []
    for row in range(board.size):
        cells = range(row * board.size, (row + 1) * board.size)
        rows.append(np.concatenate([_tile(*_content(board, position, cell), cell_pixels) for cell in cells], axis=1))
    return np.concatenate(rows)


def _content(board: Board, position: Position, cell: int) -> tuple[str, bool]:
    """What stands on a cell, "player", "box", "" or "wall", and whether the cell is a target."""
    if cell == position.player:
        return "player", cell in board.targets
    if cell in position.boxes:
        return "box", cell in board.targets
    return "" if cell in board.floor else "wall", cell in board.targets


@lru_cache(maxsize=64)
def _tile(content: str, on_target: bool, pixels: int) -> np.ndarray:
    """One cell, uint8[pixels, pixels, 3]."""
    unit = pixels / CELL_PIXELS
    tile = Image.new("RGB", (pixels, pixels), _WALL if content == "wall" else _FLOOR)
    draw = ImageDraw.Draw(tile)

    def square(margin: float) -> tuple[float, float, float, float]:
        low = margin * unit
        return low, low, pixels - 1 - low, pixels - 1 - low

    thin, thick = max(1, round(unit)), max(1, round(2 * unit))
    if content == "wall":
        # Bricks in two courses.
        draw.line((0, pixels // 2, pixels, pixels // 2), fill=_DARK, width=thin)
        draw.line((pixels // 2, 0, pixels // 2, pixels // 2), fill=_DARK, width=thin)
    if content == "box":
        draw.rectangle(square(1), fill=_BOX_ON_TARGET if on_target else _BOX, outline=_DARK, width=thin)
        left, top, right, bottom = square(3)
        draw.line((left, top, right, bottom), fill=_DARK, width=thick)
        draw.line((left, bottom, right, top), fill=_DARK, width=thick)
    elif on_target:
        draw.rectangle(square(2), outline=_TARGET, width=thick)
    if content == "player":
        draw.ellipse(square(4.5), fill=_PLAYER)
    array = np.asarray(tile)
    array.setflags(write=False)  # it is shared
    return array
