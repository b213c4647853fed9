"""Sentence vectors from an encoder of transformers: the mean over its last hidden states, of length 1."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F
from transformers import AutoModel, AutoTokenizer


class SentenceEncoder:
    """An encoder such as e5-base-v2 or all-MiniLM-L6-v2, on the first GPU where there is one.

    Args:
        directory: A Hugging Face directory.
        query_prefix, passage_prefix: What the model wants to read before a text: "query: " and "passage: " for e5.
        max_tokens: Longer texts are cut there.

    Raises:
        ValueError: The directory holds no model with a tokenizer.
    """

    def __init__(self, directory: Path, *, query_prefix: str = "", passage_prefix: str = "", max_tokens: int = 256):
        if not (directory / "config.json").is_file():
            raise ValueError(f"{directory} holds no config.json; name the Hugging Face directory of a sentence encoder")
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        # To the right: positions are absolute, and a text's must not depend on its batch.
        self._tokenizer = AutoTokenizer.from_pretrained(directory, local_files_only=True, padding_side="right")
        self._model = AutoModel.from_pretrained(directory, local_files_only=True, dtype=torch.float32)
        self._model.to(self._device).eval()
        self._query_prefix, self._passage_prefix = query_prefix, passage_prefix
        self._max_tokens = max_tokens

    @property
    def num_dimensions(self) -> int:
        """D, of the vectors."""
        return int(self._model.config.hidden_size)

    def encode_queries(self, texts: Sequence[str]) -> np.ndarray:
        """float32[n, D]"""
        return self._encode([self._query_prefix + text for text in texts])

    def encode_passages(self, texts: Sequence[str]) -> np.ndarray:
        """float32[n, D]"""
        return self._encode([self._passage_prefix + text for text in texts])

    @torch.inference_mode()
    def _encode(self, texts: list[str]) -> np.ndarray:
        inputs = self._tokenizer(
            texts, padding=True, truncation=True, max_length=self._max_tokens, return_tensors="pt"
        ).to(self._device)
        hidden = self._model(**inputs).last_hidden_state
        attended = inputs["attention_mask"][..., None].to(hidden.dtype)
        mean = (hidden * attended).sum(1) / attended.sum(1).clamp(min=1)
        vectors: np.ndarray = F.normalize(mean, dim=-1).cpu().numpy()
        return vectors
