"""What differs between the vision-language models that are supported, by the `model_type` of their config.json.

All of them name an image by one kind of placeholder, rotate queries and keys by time, height and width, and take the
features of images from outside. A model with all of that is one more line here, and one in pyproject.toml.
"""

from __future__ import annotations

from typing import NamedTuple


class ModelSpecifics(NamedTuple):
    """How the parts of a model are called in transformers.

    Attributes:
        vision_tower: In the model without its output layer.
        layer_features: Field of the image features that holds, for each of several layers of the language model, one
            tensor per image; None where features enter at the bottom alone.
    """

    vision_tower: str = "visual"
    layer_features: str | None = None


MODEL_SPECIFICS = {
    "qwen2_vl": ModelSpecifics(),
    "qwen2_5_vl": ModelSpecifics(),
    "qwen3_vl": ModelSpecifics(layer_features="deepstack_features"),
}
