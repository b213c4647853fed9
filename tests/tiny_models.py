"""Tiny random models, of text and of images, for tests that need the real thing and not its quality."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    AutoConfig,
    AutoModelForImageTextToText,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen2VLImageProcessorPil,
)

_CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")


def tiny_tokenizer() -> PreTrainedTokenizerFast:
    """One token per byte, three special tokens, a chat template."""
    tokens = [*_SPECIAL_TOKENS, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    tokenizer = Tokenizer(models.BPE({token: index for index, token in enumerate(tokens)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(_SPECIAL_TOKENS))
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<|endoftext|>",
        eos_token="<|im_end|>",
        padding_side="left",
        chat_template=_CHAT_TEMPLATE,
    )


def save_tiny_model(directory: Path, *, seed: int = 0, tie_word_embeddings: bool = True) -> Path:
    """Writes a random Qwen2 model (2 layers, hidden size 64, head size 32) and its tokenizer; returns `directory`.

    Args:
        directory: Created where it does not exist.
        seed: The same seed gives the same weights.
        tie_word_embeddings: Whether input and output embeddings are one tensor.
    """
    tokenizer = tiny_tokenizer()
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=512,
        tie_word_embeddings=tie_word_embeddings,
        # Large enough that tokens differ clearly in probability, which makes a wrong token visible.
        initializer_range=0.2,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = Qwen2ForCausalLM(config)
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return directory


_IMAGE_TOKENS = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
_IMAGE_CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_VISION = {
    "qwen2_vl": {"depth": 2, "embed_dim": 32, "hidden_size": 64, "num_heads": 2, "mlp_ratio": 2},
    "qwen2_5_vl": {
        "depth": 2,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_heads": 2,
        "window_size": 56,
        "fullatt_block_indexes": [1],
        "out_hidden_size": 64,
    },
    "qwen3_vl": {
        "depth": 2,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_heads": 2,
        "out_hidden_size": 64,
        "num_position_embeddings": 16,
        "deepstack_visual_indexes": [0, 1],
    },
}
# Of Qwen3-VL the sections of time, height and width take turns: vLLM is told, transformers knows.
_MROPE: dict[str, dict[str, Any]] = {
    "qwen2_vl": {"mrope_section": [4, 6, 6]},
    "qwen2_5_vl": {"mrope_section": [4, 6, 6]},
    "qwen3_vl": {"mrope_section": [6, 5, 5], "mrope_interleaved": True},
}


def save_tiny_vlm(directory: Path, *, model_type: str = "qwen2_5_vl", seed: int = 0, max_pixels: int = 112**2) -> Path:
    """Writes a random vision-language model (2 layers each, hidden sizes 64 and 32), tokenizer and image processor.

    Args:
        directory: Created where it does not exist.
        model_type: "qwen2_vl", "qwen2_5_vl" or "qwen3_vl".
        seed: The same seed gives the same weights.
        max_pixels: Of an image; a token is 28 × 28 pixels.
    """
    tokenizer = tiny_tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": list(_IMAGE_TOKENS)})
    tokenizer.chat_template = _IMAGE_CHAT_TEMPLATE
    id_of = tokenizer.convert_tokens_to_ids
    text = {
        "vocab_size": len(tokenizer),
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 32,
        "max_position_embeddings": 512,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, **_MROPE[model_type]},
        "initializer_range": 0.2,
        "tie_word_embeddings": True,
        "pad_token_id": tokenizer.pad_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "bos_token_id": None,
    }
    vision = {"patch_size": 14, "spatial_merge_size": 2, "temporal_patch_size": 2, "initializer_range": 0.2}
    config = AutoConfig.for_model(
        model_type,
        text_config=text,
        vision_config={**vision, **_VISION[model_type]},
        image_token_id=id_of("<|image_pad|>"),
        video_token_id=id_of("<|video_pad|>"),
        vision_start_token_id=id_of("<|vision_start|>"),
        vision_end_token_id=id_of("<|vision_end|>"),
        tie_word_embeddings=True,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = AutoModelForImageTextToText.from_config(config)
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    Qwen2VLImageProcessorPil(min_pixels=28**2, max_pixels=max_pixels).save_pretrained(directory)
    return directory
