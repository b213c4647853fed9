"""What a forward pass of a vision-language model takes of rows of tokens with images."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from rllib_gigpo.images import StoredImage
from rllib_gigpo.rl_modules.sharded_tensors import is_sharded
from rllib_gigpo.vlm.image_processing import ImageProcessor, ProcessedImage
from rllib_gigpo.vlm.model_specifics import MODEL_SPECIFICS, ModelSpecifics
from rllib_gigpo.vlm.processed_images import ProcessedImages

if TYPE_CHECKING:
    from transformers import PreTrainedModel
    from transformers.utils import ModelOutput

RowImages = Sequence[tuple[StoredImage, ...]]


class VisionInputs:
    """`ModelInputs` of a vision-language model.

    The vision tower sees each distinct image of a batch once, however many rows show it. Placeholders that the model
    itself has sampled are tokens like any other: only those of the prompt stand for images.
    """

    def __init__(self, image_processor: ImageProcessor):
        self._image_processor = image_processor
        self._processed = ProcessedImages(image_processor)

    def __call__(self, lm: PreTrainedModel, rows: Mapping[str, Any]) -> dict[str, Any]:
        """
        Args:
            lm: The model, with its output layer or without.
            rows: B rows of L columns, see `ModelInputs`; the images of a row in the order of their placeholders.

        Returns:
            input_ids and attention_mask int64[B, L], position_ids int64[3, B, L] (time, height, width), and the
            features of the images, where the pass needs any.

        Raises:
            ValueError: A row has not as many image tokens as its images take, one run of them for each.
        """
        images: RowImages = () if rows.get("images") is None else rows["images"]
        inputs = {name: rows[name] for name in ("input_ids", "attention_mask")}
        if any(images):
            return inputs | self._with_images(lm.base_model, rows, images)
        inputs["position_ids"] = rows["position_ids"].expand(3, -1, -1)
        # Distributed training waits for the tower's part of a pass from every learner, also where no row has an image:
        # for gradients, and of a sharded model for its weights.
        if is_sharded(lm) or (torch.is_grad_enabled() and _is_trained(lm.base_model)):
            inputs["mm_encoder_outputs"] = self._with_idle_tower(lm.base_model, rows["input_ids"])
        return inputs

    def _with_images(self, body: PreTrainedModel, rows: Mapping[str, Any], images: RowImages) -> dict[str, Any]:
        input_ids = rows["input_ids"]
        placeholder = body.config.image_token_id
        num_tokens = [[self._image_processor.num_tokens(one.height, one.width) for one in of_row] for of_row in images]
        is_image = _image_tokens(input_ids, num_tokens, placeholder)

        distinct = {one.key: one for of_row in images for one in of_row}
        processed = [self._processed.of(one) for one in distinct.values()]
        place = {key: index for index, key in enumerate(distinct)}
        shown = [[place[one.key] for one in of_row] for of_row in images]
        grids = torch.from_numpy(np.stack([processed[index].grid_thw for of_row in shown for index in of_row]))
        position_ids, _ = body.get_rope_index(
            input_ids,
            mm_token_type_ids=is_image.int(),
            image_grid_thw=grids.to(input_ids.device),
            attention_mask=rows["attention_mask"],
        )
        num_sampled = ((input_ids == placeholder) & ~is_image).sum(-1).tolist()
        features = FeaturesOnDemand(lambda: _spread(body, _image_features(body, processed), shown, num_sampled))
        return {"position_ids": position_ids, "mm_encoder_outputs": features}

    def _with_idle_tower(self, body: PreTrainedModel, input_ids: torch.Tensor) -> FeaturesOnDemand:
        """Features of a blank image of which no row shows anything."""
        side = self._image_processor.token_pixels
        blank = self._image_processor.process(np.zeros((side, side, 3), np.uint8))
        num_sampled = (input_ids == body.config.image_token_id).sum(-1).tolist()
        shown: list[list[int]] = [[]] * len(num_sampled)
        return FeaturesOnDemand(lambda: _spread(body, _image_features(body, [blank]), shown, num_sampled))


class FeaturesOnDemand(dict[str, "ModelOutput"]):
    """Image features that the model's forward pass has computed when it looks for them: only within the pass are the
    weights of a sharded model whole."""

    def __init__(self, compute: Callable[[], ModelOutput]):
        super().__init__()
        self._compute = compute

    def get(self, name: str, default: Any = None) -> Any:
        if name == "image" and name not in self:
            self[name] = self._compute()
        return super().get(name, default)


def _specifics(body: PreTrainedModel) -> ModelSpecifics:
    return MODEL_SPECIFICS[body.config.model_type]


def _is_trained(body: PreTrainedModel) -> bool:
    tower = body.get_submodule(_specifics(body).vision_tower)
    return any(parameter.requires_grad for parameter in tower.parameters())


def _image_tokens(input_ids: torch.Tensor, num_tokens: list[list[int]], placeholder: int) -> torch.Tensor:
    """bool[B, L], where the images of each row are: its first runs of placeholders.

    Args:
        input_ids: int64[B, L].
        num_tokens: How many each image takes, by row.
        placeholder: The id.

    Raises:
        ValueError: A run is longer or shorter than its image, or missing.
    """
    ids = input_ids.cpu().numpy()
    found = np.zeros(ids.shape, bool)
    for row, of_images in enumerate(num_tokens):
        columns = np.flatnonzero(ids[row] == placeholder)
        runs = np.split(columns, np.flatnonzero(np.diff(columns) > 1) + 1) if len(columns) else []
        lengths = [len(run) for run in runs]
        if lengths[: len(of_images)] != of_images:
            raise ValueError(
                f"row {row} of a batch has runs of {lengths} image tokens (id {placeholder}), but its images take "
                f"{of_images}: prompts and images do not belong together, or were processed differently"
            )
        for run in runs[: len(of_images)]:
            found[row, run] = True
    return torch.from_numpy(found).to(input_ids.device)


def _image_features(body: PreTrainedModel, processed: Sequence[ProcessedImage]) -> ModelOutput:
    """Features of K images as the model makes them: of each, float[tokens, H] in `pooler_output`, a tuple."""
    device = body.device
    pixel_values = np.concatenate([one.pixel_values for one in processed])
    grids = np.stack([one.grid_thw for one in processed])
    return body.get_image_features(
        torch.from_numpy(pixel_values).to(device), torch.from_numpy(grids).to(device), return_dict=True
    )


def _spread(
    body: PreTrainedModel, features: ModelOutput, shown: list[list[int]], num_sampled: list[int]
) -> ModelOutput:
    """Features of distinct images as the model takes them: for every placeholder of the batch, row by row.

    Args:
        body: The model.
        features: Of the distinct images.
        shown: The images of each row, by their place among the distinct ones.
        num_sampled: Placeholders of each row that stand for no image, behind those that do; what the model puts in
            their place is what it would have there without any image.
    """
    embedding = body.get_input_embeddings()(torch.tensor([body.config.image_token_id], device=body.device))

    def spread(of_images: Sequence[torch.Tensor], of_sampled: torch.Tensor) -> tuple[torch.Tensor, ...]:
        of_rows = (
            part
            for of_row, count in zip(shown, num_sampled, strict=True)
            for part in (*(of_images[index] for index in of_row), of_sampled.expand(count, -1))
        )
        # Nothing of an image, and yet a part of the graph: an idle tower gets gradients of 0.
        return (of_images[0][:0], *of_rows)

    features.pooler_output = spread(features.pooler_output, embedding)
    if name := _specifics(body).layer_features:
        nothing = torch.zeros_like(embedding)
        setattr(features, name, [spread(of_layer, nothing) for of_layer in getattr(features, name)])
    return features
