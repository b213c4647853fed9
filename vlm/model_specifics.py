"""What differs between the vision-language models that are supported, by the `model_type` of their config.json.

All of them name an image by one kind of placeholder, rotate queries and keys by time, height and width, and take the
features of images from outside. A model with all of that is one more line here, one in pyproject.toml, and a class of
two lines in `vllm_models`.
"""

from __future__ import annotations

from typing import NamedTuple


class ModelSpecifics(NamedTuple):
    """How the parts of a model are called.

    Attributes:
        vllm_class: The class in `vllm_models`, and the architecture under which vLLM knows it.
        vision_tower: In transformers' model without its output layer.
        layer_features: Field of transformers' image features that holds, for each of several layers of the language
            model, one tensor per image; None where features enter at the bottom alone.
    """

    vllm_class: str
    vision_tower: str = "visual"
    layer_features: str | None = None


MODEL_SPECIFICS = {
    "qwen2_vl": ModelSpecifics("PilQwen2VLForConditionalGeneration"),
    "qwen2_5_vl": ModelSpecifics("PilQwen2_5_VLForConditionalGeneration"),
    "qwen3_vl": ModelSpecifics("PilQwen3VLForConditionalGeneration", layer_features="deepstack_features"),
}
