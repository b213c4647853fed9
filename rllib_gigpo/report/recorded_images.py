"""Pictures of recorded observations: small ones, each distinct one once, and few of an iteration."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from rllib_gigpo.images import StoredImage

IMAGES_FOLDER = "images"
MAX_SIDE = 256  # pixels; a larger picture is shrunk
MAX_NEW_OF_AN_ITERATION = 32


class RecordedImages:
    """Writes pictures to `<folder>/<key>.png`.

    Args:
        folder: Made with the first picture.
    """

    def __init__(self, folder: Path):
        self._folder = folder
        self._left = MAX_NEW_OF_AN_ITERATION

    def keep(self, image: StoredImage) -> bool:
        """Writes the picture, where it is not there yet and no more than `MAX_NEW_OF_AN_ITERATION` are new.

        Returns:
            Whether its file is there.

        Raises:
            OSError: It cannot be written.
        """
        path = self._folder / f"{image.key}.png"
        if path.exists():
            return True
        if not self._left:
            return False
        self._left -= 1
        self._folder.mkdir(parents=True, exist_ok=True)
        picture = Image.fromarray(np.asarray(image))
        picture.thumbnail((MAX_SIDE, MAX_SIDE))
        unfinished = path.with_suffix(".unfinished")
        picture.save(unfinished, format="png")
        unfinished.replace(path)
        return True
