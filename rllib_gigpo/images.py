"""Images of observations: each distinct one is stored once per rollout group, and what shows it holds a handle.

Pixels go from env runners to learners through Ray's object store. Episodes, anchor states and token rows hold handles,
so that the driver, which sees all of them, sees no pixels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import ray
import xxhash

# Of the observations of image environments: a dict with these two keys.
TEXT = "text"
IMAGE = "image"

# Vision towers of the Qwen family refuse an image that is narrower.
MAX_ASPECT_RATIO = 200


def check_image(image: Any, name: str = "image") -> None:
    """Raises ValueError, with `name` in it, where `image` is not uint8[H, W, 3] with sides that can be resized."""
    expected = f"{name} must be a numpy array uint8[height, width, 3] in RGB"
    if not isinstance(image, np.ndarray):
        raise ValueError(f"{expected}, not a {type(image).__name__}; np.asarray(pil_image.convert('RGB')) makes one")
    if image.dtype != np.uint8:
        raise ValueError(f"{expected}, not {image.dtype}: scale it to 0 … 255 and call .astype(np.uint8)")
    if image.ndim != 3 or image.shape[2] != 3:
        raise ValueError(f"{expected}, not of shape {image.shape}: three colours, last, no alpha channel")
    height, width, _ = image.shape
    if height == 0 or width == 0:
        raise ValueError(f"{expected} of at least one pixel, not of shape {image.shape}")
    if max(height, width) > MAX_ASPECT_RATIO * min(height, width):
        raise ValueError(f"{name} of shape {image.shape} is too narrow: one side may be {MAX_ASPECT_RATIO} × the other")


def image_key(image: np.ndarray) -> str:
    """32 hexadecimal digits, equal where shape and content of two images uint8[H, W, 3] are."""
    return content_hash(image).hex()


def content_hash(array: np.ndarray) -> bytes:
    """16 bytes, equal where shape, type and content of two arrays are, on any machine.

    Of a billion arrays, two are alike by chance with a probability of 1 in 10²⁰. Somebody who draws arrays in order to
    make two alike can do so: XXH3 is eight times as fast as SHA-256, and no cryptographic hash.
    """
    digest = xxhash.xxh3_128(f"{array.shape} {array.dtype.str}".encode())
    # A copy only where the array is not contiguous. Bytes, as not every type of numpy's has a buffer.
    digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.digest()


class StoredImage:
    """A handle of an image; `np.asarray(handle)` gives its pixels, read-only, wherever they are.

    Attributes:
        key: Equal for images of equal shape and content, see `image_key`.
        height, width: In pixels.
        store: Has its pixels.
    """

    __slots__ = ("height", "key", "store", "width")

    def __init__(self, key: str, height: int, width: int, store: ImageStore):
        self.key = key
        self.height = height
        self.width = width
        self.store = store

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        pixels = self.store.pixels(self.key)
        return np.array(pixels, dtype, copy=copy)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StoredImage) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)  # within a process only, as hashes are

    def __repr__(self) -> str:
        return f"image of {self.height} × {self.width} pixels, {self.key[:8]}"

    def __reduce__(self) -> tuple[Any, ...]:
        return StoredImage, (self.key, self.height, self.width, self.store)


class ImageStore:
    """The distinct images of a rollout group, by content.

    A group that is rolled out keeps them in its process. `seal` moves them to the object store, if Ray runs; then a
    pickled handle holds a reference to all images of its group, and the first look at one of them fetches them all.
    """

    def __init__(self) -> None:
        self._pixels: dict[str, np.ndarray] | None = {}
        self._handles: dict[str, StoredImage] = {}
        self._reference: ray.ObjectRef | None = None

    def add(self, image: np.ndarray) -> StoredImage:
        """The handle of `image`, uint8[H, W, 3], which is copied where it is new.

        Raises:
            ValueError: It is no such image, see `check_image`; or the store has been sealed.
        """
        check_image(image)
        if self._reference is not None or self._pixels is None:
            raise ValueError("the images of this group have been stored already, so that none can be added")
        key = image_key(image)
        if key not in self._handles:
            # Environments may draw the next picture into the same array.
            self._pixels[key] = pixels = np.array(image, order="C")
            pixels.flags.writeable = False
            self._handles[key] = StoredImage(key, image.shape[0], image.shape[1], self)
        return self._handles[key]

    def __len__(self) -> int:
        return len(self._handles)

    def pixels(self, key: str) -> np.ndarray:
        """uint8[H, W, 3], read-only. Raises Ray's ObjectLostError where the process that drew it is gone."""
        if self._pixels is None:
            self._pixels = ray.get(self._reference)
        pixels: np.ndarray = self._pixels[key]
        return pixels

    def seal(self) -> None:
        """Moves the images to the object store, if Ray runs and there are any."""
        if self._pixels and self._reference is None and ray.is_initialized():
            self._reference = ray.put(self._pixels)
            self._pixels = None

    def adopt(self) -> ray.ObjectRef | None:
        """Has this process own the images, which else are lost with the one that stored them. The pixels stay on their
        node; the reference is ready once they are safe. None where there is nothing to adopt."""
        if self._reference is None:
            return None
        self._reference = _adopted.remote(self._reference)
        return self._reference

    def __getstate__(self) -> dict[str, Any]:
        # Without the handles: they are what refers to the store. What has been fetched stays in its process.
        pixels = self._pixels if self._reference is None else None
        return {"_pixels": pixels, "_handles": {}, "_reference": self._reference}


@ray.remote(num_cpus=0)
def _adopted(pixels: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What a task returns belongs to whoever called it, and lies where the task ran: beside its arguments."""
    return pixels


def adopt_images(observations: Iterable[Any]) -> None:
    """Has this process own the stores of stored observations, and waits until it does."""
    images = (observation_image(observation) for observation in observations)
    stores = {id(image.store): image.store for image in images if image is not None}
    references = [reference for store in stores.values() if (reference := store.adopt()) is not None]
    if references:
        ray.wait(references, num_returns=len(references), fetch_local=False)


def stored_observation(observation: Any, store: ImageStore) -> Any:
    """An observation with its image in `store`; a text as it is."""
    if isinstance(observation, Mapping):
        return {TEXT: observation[TEXT], IMAGE: store.add(observation[IMAGE])}
    return observation


def observation_key(observation: Any) -> Any:
    """Hashable, equal where two stored observations are."""
    return tuple(observation.items()) if isinstance(observation, Mapping) else observation


def observation_text(observation: Any) -> str:
    """What an observation says: a text as it is, of one with an image its text."""
    text: str = observation[TEXT] if isinstance(observation, Mapping) else observation
    return text


def observation_image(observation: Any) -> StoredImage | None:
    """The image of a stored observation; None of anything that has none."""
    image = observation.get(IMAGE) if isinstance(observation, Mapping) else None
    return image if isinstance(image, StoredImage) else None
