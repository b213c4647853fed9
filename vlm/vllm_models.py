"""vLLM's vision-language models with our image processor, which is the learner's, and without videos.

vLLM reads images by way of transformers' processor of the model, which cannot be built without torchvision: the part
of it that is for videos needs that. These take PIL's way. As with vLLM's own, a prompt has one placeholder for an
image, and gets one for each of its tokens.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from transformers import BatchFeature
from vllm.multimodal import MULTIMODAL_REGISTRY
from vllm.multimodal.inputs import MultiModalFieldConfig
from vllm.multimodal.processing import (
    BaseDummyInputsBuilder,
    BaseMultiModalProcessor,
    BaseProcessingInfo,
    PromptReplacement,
)

from rllib_gigpo.vlm.image_processing import ImageProcessor
from rllib_gigpo.vlm.vllm_bases import (
    Qwen2_5_VLForConditionalGeneration,
    Qwen2VLForConditionalGeneration,
    Qwen3VLForConditionalGeneration,
)


class PilInfo(BaseProcessingInfo):
    """What vLLM asks before there is an image."""

    @cached_property
    def image_processor(self) -> ImageProcessor:
        """That of the model directory."""
        return ImageProcessor(self.model_id)

    @property
    def max_image_tokens(self) -> int:
        """Of an image that is served: published models allow 16,384, which few contexts hold."""
        return min(self.image_processor.max_tokens, self.ctx.model_config.max_model_len)

    def get_supported_mm_limits(self) -> Mapping[str, int | None]:
        """Images, as many as there are, and nothing else."""
        return {"image": None}

    def get_mm_max_tokens_per_item(self, seq_len: int, mm_counts: Mapping[str, int]) -> Mapping[str, int]:
        """What an image may take of the encoder's memory."""
        return {"image": self.max_image_tokens}


class LargestImages(BaseDummyInputsBuilder[PilInfo]):
    """What vLLM tries out how much memory it needs with."""

    def get_dummy_text(self, mm_counts: Mapping[str, int]) -> str:
        """A placeholder for each image."""
        placeholder = self.info.get_tokenizer().convert_ids_to_tokens(self.info.get_hf_config().image_token_id)
        return placeholder * mm_counts.get("image", 0)

    def get_dummy_mm_data(self, seq_len: int, mm_counts: Mapping[str, int], mm_options: Any) -> dict[str, Any]:
        """Black images, as nearly square as so many tokens can be."""
        height = math.isqrt(self.info.max_image_tokens)
        width = self.info.max_image_tokens // height
        side = self.info.image_processor.token_pixels
        return {"image": [np.zeros((height * side, width * side, 3), np.uint8)] * mm_counts.get("image", 0)}


class PilProcessor(BaseMultiModalProcessor[PilInfo]):
    """Images uint8[H, W, 3] to what the vision tower reads, and their placeholders to one for each token."""

    def _call_hf_processor(self, hf_data: Mapping[str, Any], hf_kwargs: Mapping[str, object]) -> BatchFeature:
        processed = [self.info.image_processor.process(np.asarray(image)) for image in hf_data["images"]]
        pixel_values = torch.from_numpy(np.concatenate([one.pixel_values for one in processed]))
        grids = torch.from_numpy(np.stack([one.grid_thw for one in processed]))
        return BatchFeature(
            {"pixel_values": pixel_values.to(self.info.ctx.model_config.dtype), "image_grid_thw": grids}
        )

    def _get_mm_fields_config(
        self, hf_inputs: BatchFeature, hf_processor_mm_kwargs: Mapping[str, object]
    ) -> Mapping[str, MultiModalFieldConfig]:
        grids = hf_inputs.get("image_grid_thw", torch.empty((0, 3), dtype=torch.int64))
        return {
            "pixel_values": MultiModalFieldConfig.flat_from_sizes("image", grids.prod(-1)),
            "image_grid_thw": MultiModalFieldConfig.batched("image", keep_on_cpu=True),
        }

    def _get_prompt_updates(
        self, mm_items: Any, hf_processor_mm_kwargs: Mapping[str, Any], out_mm_kwargs: Any
    ) -> Sequence[PromptReplacement]:
        placeholder = self.info.get_hf_config().image_token_id

        def expanded(index: int) -> list[int]:
            patches = int(out_mm_kwargs["image"][index]["image_grid_thw"].data.prod())
            return [placeholder] * (patches // self.info.image_processor.merge_size**2)

        return [PromptReplacement(modality="image", target=[placeholder], replacement=expanded)]


_with_pil = MULTIMODAL_REGISTRY.register_processor(PilProcessor, info=PilInfo, dummy_inputs=LargestImages)


@_with_pil
class PilQwen2VLForConditionalGeneration(Qwen2VLForConditionalGeneration):
    """Qwen2-VL."""


@_with_pil
class PilQwen2_5_VLForConditionalGeneration(Qwen2_5_VLForConditionalGeneration):
    """Qwen2.5-VL."""


@_with_pil
class PilQwen3VLForConditionalGeneration(Qwen3VLForConditionalGeneration):
    """Qwen3-VL."""
