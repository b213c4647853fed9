"""Rows with images for a tiny vision-language model, and what plain transformers makes of them, row by row."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from rllib_gigpo.agent_formats.chat import encode_prompt, encode_prompt_with_images
from rllib_gigpo.agent_formats.image_marks import image_mark
from rllib_gigpo.images import ImageStore, StoredImage
from rllib_gigpo.learners.response_scores import micro_batch_tensors
from rllib_gigpo.rl_modules.causal_lm_rl_module import CausalLMRLModule
from rllib_gigpo.rows import TokenRows

FIRST, SECOND = image_mark(0), image_mark(1)


def random_image(height: int = 56, width: int = 84, *, seed: int = 0) -> np.ndarray:
    """uint8[height, width, 3] of noise."""
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def prompt_of(module: CausalLMRLModule, message: str, images: list[StoredImage]) -> tuple[np.ndarray, tuple]:
    """Ids int32[P] of a message with marks, and the images that it shows."""
    if not images:
        return encode_prompt(module.tokenizer, message), ()
    ids, order = encode_prompt_with_images(module.tokenizer, message, len(images))
    shown = tuple(images[index] for index in order)
    return module.with_image_tokens(ids, shown), shown


def image_rows(module: CausalLMRLModule, *, texts_only: bool = False) -> TokenRows:
    """Rows of different lengths with one image, another one, two, again the first one, and none."""
    store = ImageStore()
    wide, tall = store.add(random_image()), store.add(random_image(84, 56, seed=1))
    messages = [
        (f"{FIRST}look", [wide]),
        (f"{FIRST}a longer text", [tall]),
        (f"before {FIRST} between {SECOND} after", [tall, wide]),
        (f"{FIRST}x", [wide]),
        ("no image", []),
    ]
    prompts = [prompt_of(module, message, images) for message, images in messages[4 if texts_only else 0 :]]
    rng = np.random.default_rng(0)
    responses = [rng.integers(3, 250, size) for size in (4, 7, 2, 5, 3)[: len(prompts)]]
    return TokenRows.from_lists(
        [ids for ids, _ in prompts],
        responses,
        [np.full(len(response), -5.0) for response in responses],
        advantages=rng.standard_normal(len(prompts)),
        images=[images for _, images in prompts],
    )


def plain_log_probs(module: CausalLMRLModule, rows: TokenRows, row: int, lm: Any = None) -> torch.Tensor:
    """float32[R], log-probs of a row's response by one forward pass of transformers: no padding, its own patches."""
    lm = module.lm if lm is None else lm
    end = int(rows.lengths[: row + 1].sum())
    ids = torch.from_numpy(rows.token_ids[end - rows.lengths[row] : end]).long()
    response = int(rows.response_lengths[row])
    inputs: dict[str, Any] = {"input_ids": ids[None]}
    images = () if rows.images is None else rows.images[row]
    if images:
        processed = [module._image_processor.process(np.asarray(image)) for image in images]
        inputs["pixel_values"] = torch.from_numpy(np.concatenate([one.pixel_values for one in processed]))
        inputs["image_grid_thw"] = torch.from_numpy(np.stack([one.grid_thw for one in processed]))
        inputs["mm_token_type_ids"] = (ids == lm.config.image_token_id).int()[None]
    logits = lm(**inputs, use_cache=False).logits[0, -response - 1 : -1]
    return logits.log_softmax(-1).gather(1, ids[-response:, None])[:, 0]


def log_probs(module: CausalLMRLModule, rows: TokenRows) -> torch.Tensor:
    """float32[M], all rows in one padded micro-batch."""
    batch = micro_batch_tensors(rows, pad_id=module.tokenizer.pad_token_id, device="cpu")
    logits = module.forward_train(batch)["logits"]
    return logits.log_softmax(-1).gather(1, batch["response_ids"][:, None])[:, 0]
