"""Updates of a policy as TRL's GRPO trainer makes them: padded for the whole batch at once, rows in any order.

`TRLLoop` calls TRL itself, where it is installed; `TRLPaddedLoop` has the same rectangles, with an output layer that
sees the columns of responses only, as TRL had it before its fused one: on a CPU that one goes over all columns.
"""

from __future__ import annotations

import importlib.util
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from bare_loops import CLIP, grpo_loss, load_model
from torch.nn.utils.rnn import pad_sequence

from rllib_gigpo.rl_modules.model_directory import load_tokenizer
from rllib_gigpo.rows import TokenRows


def has_trl() -> bool:
    return importlib.util.find_spec("trl") is not None


def padded_batch(rows: TokenRows) -> dict[str, torch.Tensor]:
    """Prompts padded on the left and completions on the right, int64[T, P] and int64[T, C], each to the longest of all
    rows, with their masks; advantages float[T]."""
    ids = torch.from_numpy(rows.token_ids.astype(np.int64))
    of_rows = ids.split(rows.lengths.tolist())
    prompts = [row[:-n] for row, n in zip(of_rows, rows.response_lengths, strict=True)]
    completions = [row[-n:] for row, n in zip(of_rows, rows.response_lengths, strict=True)]

    def padded(parts: list[torch.Tensor], side: str) -> torch.Tensor:
        return pad_sequence(parts, batch_first=True, padding_side=side)

    return {
        "prompt_ids": padded(prompts, "left"),
        "prompt_mask": padded([torch.ones_like(part) for part in prompts], "left"),
        "completion_ids": padded(completions, "right"),
        "completion_mask": padded([torch.ones_like(part) for part in completions], "right"),
        "advantages": torch.from_numpy(rows.advantages),
    }


class TRLPaddedLoop:
    """The rectangles of TRL, and its order of rows, in plain transformers."""

    def __init__(self, path: Path, token_budget: int):
        self.model = load_model(path)
        self.token_budget = token_budget
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-9)

    def update(self, rows: TokenRows) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        batch = padded_batch(rows)
        width = batch["prompt_ids"].shape[1] + batch["completion_ids"].shape[1]
        size = max(1, self.token_budget // width)
        for part in torch.randperm(len(rows), generator=torch.Generator().manual_seed(0)).split(size):
            self.loss({name: column[part] for name, column in batch.items()}, rows.num_response_tokens).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()

    def loss(self, batch: dict[str, torch.Tensor], num_tokens: int) -> torch.Tensor:
        is_response = batch["completion_mask"].bool()
        logits = self.model(
            input_ids=torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1),
            attention_mask=torch.cat([batch["prompt_mask"], batch["completion_mask"]], 1),
            use_cache=False,
            logits_to_keep=is_response.shape[1] + 1,
        ).logits[:, :-1]
        advantages = batch["advantages"][:, None].expand(is_response.shape)
        return (
            grpo_loss(logits[is_response], batch["completion_ids"][is_response], advantages[is_response]) / num_tokens
        )


class TRLLoop(TRLPaddedLoop):
    """The loss of TRL's own GRPOTrainer, `_compute_loss`, with its metrics and its output layer."""

    def __init__(self, path: Path, token_budget: int):
        from datasets import Dataset
        from trl import GRPOConfig, GRPOTrainer

        super().__init__(path, token_budget)
        arguments = GRPOConfig(
            output_dir=tempfile.mkdtemp(prefix="trl_"),
            use_cpu=True,
            bf16=False,
            report_to=[],
            per_device_train_batch_size=8,
            num_generations=8,
            loss_type="dapo",  # the mean over all response tokens of the batch
            epsilon=CLIP,
            beta=0.0,
            gradient_checkpointing=False,
        )
        self.trainer: Any = GRPOTrainer(
            model=self.model,
            reward_funcs=lambda completions, **_: [0.0] * len(completions),
            args=arguments,
            train_dataset=Dataset.from_dict({"prompt": ["a"] * 8}),
            processing_class=load_tokenizer(path),
        )
        self.trainer.current_gradient_accumulation_steps = arguments.steps_per_generation

    def loss(self, batch: dict[str, torch.Tensor], num_tokens: int) -> torch.Tensor:
        loss: torch.Tensor = self.trainer._compute_loss(
            self.model, {**batch, "num_items_in_batch": torch.tensor(float(num_tokens))}
        )
        return loss
