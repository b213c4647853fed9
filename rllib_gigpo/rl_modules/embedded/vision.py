"""A tiny Qwen2.5-VL from nothing, its image processor, and its directory on disk."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from transformers import (
    PreTrainedTokenizerBase,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2VLImageProcessorPil,
)

from rllib_gigpo.rl_modules.embedded.build import MAX_POSITIONS
from rllib_gigpo.rl_modules.embedded.tokenizer import IMAGE_PAD, VIDEO_PAD, VISION_END, VISION_START

MERGE_SIZE = 2  # patches along each side of a token of the language model


def build_vision_language_model(
    tokenizer: PreTrainedTokenizerBase,
    *,
    seed: int,
    token_pixels: int,
    hidden_size: int = 128,
    intermediate_size: int = 288,
    num_layers: int = 2,
    num_heads: int = 4,
    num_key_value_heads: int = 2,
    vision_hidden_size: int = 32,
    vision_layers: int = 1,
) -> Qwen2_5_VLForConditionalGeneration:
    """A randomly initialised float32 Qwen2.5-VL with tied embeddings, one row of the embedding per token.

    The same seed gives the same weights; torch's global generator is left as it was. The defaults have heads of 32
    numbers, the smallest that vLLM's CPU kernels take.

    Args:
        tokenizer: From `build_tokenizer(…, with_images=True)`.
        seed: Of the weights.
        token_pixels: Height and width of what becomes one token of the language model.

    Raises:
        ValueError: `token_pixels` is odd, or `hidden_size` is not a multiple of `num_heads`.
    """
    if token_pixels % MERGE_SIZE:
        raise ValueError(f"token_pixels is {token_pixels}; it must be a multiple of {MERGE_SIZE}")
    if hidden_size % num_heads:
        raise ValueError(f"hidden_size is {hidden_size}; it must be a multiple of num_heads, {num_heads}")
    config = Qwen2_5_VLConfig(
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": hidden_size,
            "intermediate_size": intermediate_size,
            "num_hidden_layers": num_layers,
            "num_attention_heads": num_heads,
            "num_key_value_heads": num_key_value_heads,
            "max_position_embeddings": MAX_POSITIONS,
            "rope_parameters": _rotary_embedding(hidden_size // num_heads),
            # Wider than Qwen's 0.02, which is meant for far larger matrices and starts a model of this size too flat.
            "initializer_range": 0.05,
            "bos_token_id": None,
            "eos_token_id": tokenizer.eos_token_id,
            "pad_token_id": tokenizer.pad_token_id,
            "tie_word_embeddings": True,
        },
        vision_config={
            "depth": vision_layers,
            "hidden_size": vision_hidden_size,
            "intermediate_size": 2 * vision_hidden_size,
            "num_heads": 2,
            "out_hidden_size": hidden_size,
            "patch_size": token_pixels // MERGE_SIZE,
            "spatial_merge_size": MERGE_SIZE,
            "temporal_patch_size": 2,
            "window_size": 4 * token_pixels,
            # Every layer sees the whole picture: a window would hold most of it anyway.
            "fullatt_block_indexes": list(range(vision_layers)),
            "initializer_range": 0.05,
        },
        image_token_id=tokenizer.convert_tokens_to_ids(IMAGE_PAD),
        video_token_id=tokenizer.convert_tokens_to_ids(VIDEO_PAD),
        vision_start_token_id=tokenizer.convert_tokens_to_ids(VISION_START),
        vision_end_token_id=tokenizer.convert_tokens_to_ids(VISION_END),
        tie_word_embeddings=True,
        dtype=torch.float32,
    )
    # transformers initialises from torch's global generator.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Qwen2_5_VLForConditionalGeneration(config)
    model.generation_config.bos_token_id = None
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    return model


def build_image_processor(*, token_pixels: int, max_pixels: int) -> Qwen2VLImageProcessorPil:
    """Qwen's image processor for patches of that size; larger pictures are made smaller, to at most `max_pixels`."""
    return Qwen2VLImageProcessorPil(
        size={"shortest_edge": token_pixels**2, "longest_edge": max_pixels},
        patch_size=token_pixels // MERGE_SIZE,
        merge_size=MERGE_SIZE,
        temporal_patch_size=2,
        # Black is -1 and white is 1, whatever the colour: there are no photographs here.
        image_mean=[0.5, 0.5, 0.5],
        image_std=[0.5, 0.5, 0.5],
    )


def save_vision_language_model(
    directory: Path,
    model: Qwen2_5_VLForConditionalGeneration,
    tokenizer: PreTrainedTokenizerBase,
    image_processor: Qwen2VLImageProcessorPil,
) -> None:
    """Writes an ordinary Hugging Face model directory, with the `preprocessor_config.json` of Qwen2.5-VL's own."""
    directory.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    # Under its general name, so that AutoImageProcessor chooses the backend that is installed.
    settings = image_processor.to_dict() | {
        "image_processor_type": "Qwen2VLImageProcessor",
        "processor_class": "Qwen2_5_VLProcessor",
    }
    (directory / "preprocessor_config.json").write_text(json.dumps(settings, indent=2, sort_keys=True) + "\n")


def _rotary_embedding(head_size: int) -> dict[str, object]:
    """Multimodal rotary embedding whose slow frequencies still tell neighbouring cells apart.

    Columns have the slowest ones. With Qwen's base of a million, and even with ten thousand, they turn by less than a
    hundredth of a radian from a cell to the next, and a model of this size never learns to read columns.
    """
    half = head_size // 2
    height = width = half * 3 // 8
    return {
        "rope_type": "default",
        "rope_theta": 10.0,
        "mrope_section": [half - height - width, height, width],
    }
