"""Images from files, for environments that show some."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image


def read_image(file: str | Path) -> np.ndarray:
    """The image of a file, uint8[H, W, 3] in RGB; what is transparent loses its transparency.

    Raises:
        ValueError: There is no such file, or it is no image, or a truncated one.
    """
    try:
        with Image.open(file) as image:
            return np.asarray(image.convert("RGB"))
    # PIL raises SyntaxError for broken PNG files.
    except (OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise ValueError(f"{file} cannot be read as an image: {error}") from error
