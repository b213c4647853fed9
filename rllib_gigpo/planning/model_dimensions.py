"""Sizes of language models: from a model directory's config.json, or of a few public models by name."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class ModelDimensions:
    """A decoder with grouped attention and a gated MLP, as Qwen's and Llama's are.

    Attributes:
        name: Of the model.
        layers, hidden, intermediate: Depth, width, width of the MLP.
        heads, kv_heads, head_size: Of the attention.
        vocabulary: Rows of the embedding.
        is_tied: Whether the output layer is the embedding.
        has_bias: Whether queries, keys and values have a bias.
        has_head_norms: Whether queries and keys are normalized, as in Qwen3.
        vision: Parameters of a vision tower; 0 for text models.
    """

    name: str
    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_size: int
    vocabulary: int
    is_tied: bool
    has_bias: bool = False
    has_head_norms: bool = False
    vision: int = 0

    @property
    def query_width(self) -> int:
        """Of all heads."""
        return self.heads * self.head_size

    @property
    def kv_width(self) -> int:
        """Of the keys, and of the values, of all heads."""
        return self.kv_heads * self.head_size

    def num_layer_parameters(self) -> int:
        """Weights of one layer."""
        attention = self.hidden * (2 * self.query_width + 2 * self.kv_width)
        biases = self.query_width + 2 * self.kv_width if self.has_bias else 0
        norms = 2 * self.hidden + (2 * self.head_size if self.has_head_norms else 0)
        return attention + biases + norms + 3 * self.hidden * self.intermediate

    def num_parameters(self) -> int:
        """All weights, each tensor once."""
        embeddings = self.vocabulary * self.hidden * (1 if self.is_tied else 2)
        return self.layers * self.num_layer_parameters() + embeddings + self.hidden + self.vision

    def num_adapter_parameters(self, rank: int) -> int:
        """Weights of a LoRA adapter on every linear layer of the decoder."""
        inputs_and_outputs = (
            2 * (self.hidden + self.query_width)  # queries, output
            + 2 * (self.hidden + self.kv_width)  # keys, values
            + 3 * (self.hidden + self.intermediate)
        )
        return self.layers * rank * inputs_and_outputs

    def cache_bytes_per_token(self, bytes_per_value: int) -> int:
        """Keys and values of one token."""
        return 2 * self.layers * self.kv_width * bytes_per_value


_QWEN25 = {"has_bias": True}
_QWEN3 = {"has_head_norms": True}
_QWEN25_VISION = 668_700_000
_QWEN3_VISION = 410_000_000

# By the name of the directory; the numbers are those of the models' own config.json.
PUBLIC_MODELS = {
    found.name: found
    for found in (
        ModelDimensions("Qwen2.5-0.5B-Instruct", 24, 896, 4864, 14, 2, 64, 151_936, True, **_QWEN25),
        ModelDimensions("Qwen2.5-1.5B-Instruct", 28, 1536, 8960, 12, 2, 128, 151_936, True, **_QWEN25),
        ModelDimensions("Qwen2.5-3B-Instruct", 36, 2048, 11008, 16, 2, 128, 151_936, True, **_QWEN25),
        ModelDimensions("Qwen2.5-7B-Instruct", 28, 3584, 18944, 28, 4, 128, 152_064, False, **_QWEN25),
        ModelDimensions("Qwen2.5-14B-Instruct", 48, 5120, 13824, 40, 8, 128, 152_064, False, **_QWEN25),
        ModelDimensions("Qwen3-0.6B", 28, 1024, 3072, 16, 8, 128, 151_936, True, **_QWEN3),
        ModelDimensions("Qwen3-1.7B", 28, 2048, 6144, 16, 8, 128, 151_936, True, **_QWEN3),
        ModelDimensions("Qwen3-4B", 36, 2560, 9728, 32, 8, 128, 151_936, True, **_QWEN3),
        ModelDimensions("Qwen3-8B", 36, 4096, 12288, 32, 8, 128, 151_936, False, **_QWEN3),
        ModelDimensions("Llama-3.2-1B-Instruct", 16, 2048, 8192, 32, 8, 64, 128_256, True),
        ModelDimensions("Llama-3.2-3B-Instruct", 28, 3072, 8192, 24, 8, 128, 128_256, True),
        ModelDimensions("Llama-3.1-8B-Instruct", 32, 4096, 14336, 32, 8, 128, 128_256, False),
        ModelDimensions(
            "Qwen2.5-VL-3B-Instruct", 36, 2048, 11008, 16, 2, 128, 151_936, True, vision=_QWEN25_VISION, **_QWEN25
        ),
        ModelDimensions(
            "Qwen2.5-VL-7B-Instruct", 28, 3584, 18944, 28, 4, 128, 152_064, False, vision=_QWEN25_VISION, **_QWEN25
        ),
        ModelDimensions(
            "Qwen3-VL-2B-Instruct", 28, 2048, 6144, 16, 8, 128, 151_936, True, vision=_QWEN3_VISION, **_QWEN3
        ),
        ModelDimensions(
            "Qwen3-VL-4B-Instruct", 36, 2560, 9728, 32, 8, 128, 151_936, True, vision=_QWEN3_VISION, **_QWEN3
        ),
    )
}


def model_dimensions(model_path: str | Path) -> ModelDimensions:
    """Those of a model directory, or where there is none, of the public model that its name names.

    Raises:
        ValueError: Neither is there, or its config.json describes no such decoder.
    """
    path = Path(model_path)
    if (path / "config.json").is_file():
        from rllib_gigpo.rl_modules.model_directory import read_model_config

        config = read_model_config(path)
        found = _dimensions_in(path.name, config)
        return replace(found, vision=_vision_parameters(path, found)) if "vision_config" in config else found
    if path.name in PUBLIC_MODELS:
        return PUBLIC_MODELS[path.name]
    nearest = difflib.get_close_matches(path.name, PUBLIC_MODELS, n=1)
    hint = f", did you mean {nearest[0]}?" if nearest else ""
    raise ValueError(
        f"model_path {str(path)!r} has no config.json, and no known model is called {path.name!r}{hint}; known: "
        f"{', '.join(PUBLIC_MODELS)}"
    )


def _dimensions_in(name: str, config: Mapping[str, Any]) -> ModelDimensions:
    text = config.get("text_config") or config
    for key in ("num_experts", "num_local_experts", "n_routed_experts"):
        if text.get(key):
            raise ValueError(f"config.json of {name} has {key}={text[key]}: mixtures of experts are not estimated")
    try:
        heads, hidden = text["num_attention_heads"], text["hidden_size"]
        model_type = str(text.get("model_type", ""))
        return ModelDimensions(
            name=name,
            layers=text["num_hidden_layers"],
            hidden=hidden,
            intermediate=text["intermediate_size"],
            heads=heads,
            kv_heads=text.get("num_key_value_heads") or heads,
            head_size=text.get("head_dim") or hidden // heads,
            vocabulary=text["vocab_size"],
            is_tied=bool(text.get("tie_word_embeddings", config.get("tie_word_embeddings", False))),
            # Qwen2's biases are not in its config.
            has_bias=model_type.startswith("qwen2") or bool(text.get("attention_bias", False)),
            has_head_norms=model_type.startswith("qwen3"),
        )
    except KeyError as error:
        raise ValueError(f"config.json of {name} has no {error}: its size cannot be told") from error


def _vision_parameters(path: Path, decoder: ModelDimensions) -> int:
    """Of the tower of a model directory: towers differ, so that transformers' own, without memory, is counted."""
    from rllib_gigpo.rl_modules.model_directory import causal_lm_skeleton

    return sum(tensor.numel() for tensor in causal_lm_skeleton(path).parameters()) - decoder.num_parameters()
