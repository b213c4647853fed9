"""A vision-language model of the Qwen family as an RLlib RLModule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from ray.rllib.core.rl_module.rl_module import RLModule
from ray.rllib.utils.annotations import override

from rllib_gigpo.images import ImageStore, StoredImage
from rllib_gigpo.inference.weights_probe import Probe
from rllib_gigpo.rl_modules.causal_lm_rl_module import FREEZE_VISION_TOWER, MODEL_PATH, CausalLMRLModule
from rllib_gigpo.rl_modules.model_inputs import ModelInputs
from rllib_gigpo.vlm.image_processing import ImageProcessor, collapse_placeholders, expand_placeholders
from rllib_gigpo.vlm.model_specifics import MODEL_SPECIFICS
from rllib_gigpo.vlm.vision_inputs import VisionInputs


class VisionLanguageRLModule(CausalLMRLModule):
    """The policy: a vision-language model with its tokenizer and image processor, from a model directory.

    Keys of `model_config`: those of `CausalLMRLModule`.

    Prompts show images where the chat template writes its placeholder; the processor's config in the model directory
    says how large they become. Rows without any image are read as text.

    Raises:
        ValueError: The model directory has no image processor.
    """

    reads_images: ClassVar[bool] = True

    @override(RLModule)
    def setup(self) -> None:
        self._image_processor = ImageProcessor(self.model_config[MODEL_PATH])
        super().setup()

    @classmethod
    @override(CausalLMRLModule)
    def make_model_inputs(cls, model_path: str) -> ModelInputs:
        return VisionInputs(ImageProcessor(model_path))

    @override(CausalLMRLModule)
    def frozen_parts(self) -> Sequence[str]:
        if not self.model_config.get(FREEZE_VISION_TOWER):
            return ()
        return (f"{self.lm.base_model_prefix}.{MODEL_SPECIFICS[self.lm.config.model_type].vision_tower}",)

    @override(CausalLMRLModule)
    def vllm_architecture(self) -> str:
        return MODEL_SPECIFICS[self.lm.config.model_type].vllm_class

    @override(CausalLMRLModule)
    def probe(self) -> Probe:
        """A picture, so that the vision tower is proved too, and the tokens of a text."""
        config = self.lm.config
        around_images = [config.vision_start_token_id, config.image_token_id, config.vision_end_token_id]
        side = self._image_processor.token_pixels
        image = ImageStore().add(np.arange(2 * side * side * 3, dtype=np.uint8).reshape(side, 2 * side, 3))
        picture = self.with_image_tokens(np.array(around_images, np.int32), [image])
        text = super().probe().token_ids
        # Engines may take any placeholder for that of an image.
        text = text[~np.isin(text, [*around_images, config.video_token_id])]
        return Probe(np.concatenate([picture, text]), (image,))

    @override(CausalLMRLModule)
    def with_image_tokens(self, prompt_ids: np.ndarray, images: Sequence[StoredImage]) -> np.ndarray:
        return expand_placeholders(prompt_ids, self._num_tokens(images), self.lm.config.image_token_id)

    @override(CausalLMRLModule)
    def with_placeholders(self, prompt_ids: np.ndarray, images: Sequence[StoredImage]) -> np.ndarray:
        return collapse_placeholders(prompt_ids, self._num_tokens(images), self.lm.config.image_token_id)

    def _num_tokens(self, images: Sequence[StoredImage]) -> list[int]:
        return [self._image_processor.num_tokens(image.height, image.width) for image in images]
