"""Alignment of a vision tower: each token of a picture comes to lie where the words for what it shows are.

A tiny language model that reads random features of pictures learns everything else first, and then finds nothing in
them for hundreds of steps. After this it reads them as it reads words, and only has to learn where they stand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from transformers import PreTrainedTokenizerBase, Qwen2_5_VLForConditionalGeneration, Qwen2VLImageProcessorPil

from rllib_gigpo.rl_modules.embedded.warm_start import one_thread

BATCH_PICTURES = 32


class NamedPicture(NamedTuple):
    """A picture, uint8[H, W, 3], and for each of its tokens, row by row, the words for what it shows: one character
    each, such as "7"; none where it does not matter."""

    picture: np.ndarray
    words: Sequence[str]


def teach_to_name(
    model: Qwen2_5_VLForConditionalGeneration,
    tokenizer: PreTrainedTokenizerBase,
    image_processor: Qwen2VLImageProcessorPil,
    pictures: Sequence[NamedPicture],
    *,
    steps: int,
    learning_rate: float,
    seed: int,
) -> list[float]:
    """Trains the vision tower in place, on one thread: a token of a picture is to be the mean embedding of its words.

    Args:
        model: On the CPU; nothing but its vision tower changes.
        pictures: All of one size.
        steps: Optimizer steps, each on `BATCH_PICTURES` pictures drawn with replacement.
        learning_rate: Its peak, from which it falls along a cosine to zero.
        seed: Of the draw of pictures.

    Returns:
        The mean squared distance to the embeddings, as a share of their mean square, of each step's batch.

    Raises:
        ValueError: There are no pictures.
    """
    if not pictures:
        raise ValueError("there are no pictures to name")
    rng = np.random.default_rng(seed)
    embeddings = model.get_input_embeddings().weight.detach().clone()
    scale = embeddings.square().mean()
    visual = model.model.visual
    optimizer = torch.optim.AdamW(visual.parameters(), lr=learning_rate, betas=(0.9, 0.98), weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    features = image_processor([row.picture for row in pictures], return_tensors="pt")
    patches = features["pixel_values"].unflatten(0, (len(pictures), -1))  # [N, patches, numbers of a patch]
    grids = features["image_grid_thw"]
    targets, named = _mean_embeddings(tokenizer, embeddings, [row.words for row in pictures])
    losses = []
    with one_thread():
        for _ in range(steps):
            rows = torch.from_numpy(rng.integers(len(pictures), size=BATCH_PICTURES))
            tokens = visual(patches[rows].flatten(0, 1), grid_thw=grids[rows]).pooler_output
            apart = (tokens - targets[rows].flatten(0, 1)).square().mean(1)
            weights = named[rows].flatten()
            loss = (apart * weights).sum() / weights.sum() / scale
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(visual.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            losses.append(float(loss.detach()))
    return losses


def _mean_embeddings(
    tokenizer: PreTrainedTokenizerBase, embeddings: torch.Tensor, words: Sequence[Sequence[str]]
) -> tuple[torch.Tensor, torch.Tensor]:
    """float32[N, T, hidden], and float32[N, T] with 1 where a token has any words, of N pictures of T tokens."""
    targets = torch.zeros(len(words), len(words[0]), embeddings.shape[1])
    for picture, of_tokens in enumerate(words):
        for token, characters in enumerate(of_tokens):
            if characters:
                targets[picture, token] = embeddings[tokenizer.convert_tokens_to_ids(list(characters))].mean(0)
    return targets, torch.tensor([[float(bool(characters)) for characters in of_tokens] for of_tokens in words])
