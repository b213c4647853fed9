"""Keeps what the image processor made of the images that were asked for last."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np

from rllib_gigpo.images import StoredImage
from rllib_gigpo.vlm.image_processing import ImageProcessor, ProcessedImage

# An image is looked at several times in an iteration: when it is sampled from, scored and learned from.
_BYTES = 256 * 2**20


class ProcessedImages:
    """Processed images by content, the latest ones, in no more than `max_bytes`; but always the last one."""

    def __init__(self, image_processor: ImageProcessor, *, max_bytes: int = _BYTES):
        self._image_processor = image_processor
        self._max_bytes = max_bytes
        self._kept: OrderedDict[str, ProcessedImage] = OrderedDict()
        self._bytes = 0

    def of(self, image: StoredImage) -> ProcessedImage:
        """What the vision tower reads of `image`."""
        if image.key in self._kept:
            self._kept.move_to_end(image.key)
            return self._kept[image.key]
        processed = self._image_processor.process(np.asarray(image))
        self._kept[image.key] = processed
        self._bytes += processed.pixel_values.nbytes
        while self._bytes > self._max_bytes and len(self._kept) > 1:
            _, oldest = self._kept.popitem(last=False)
            self._bytes -= oldest.pixel_values.nbytes
        return processed
