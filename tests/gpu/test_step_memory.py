"""What a learner's step takes of a GPU, against what `rllib plan` estimates."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from rllib_gigpo.planning.memory import GIB, TrainingSettings, learner_memory
from rllib_gigpo.planning.model_dimensions import model_dimensions
from rllib_gigpo.rl_modules.lora import LoraSettings
from tests.gpu_cases import equal_rows, learner_on_gpu, update

pytestmark = pytest.mark.gpu

# Measured for estimated. Above it, a plan lets through what dies; below, it refuses what would run.
BAND = (0.5, 1.2)

PROMPT, RESPONSE, PASS = 448, 64, 4096


@pytest.mark.parametrize(
    ("learner", "planned"),
    [
        ({}, {}),
        ({"dtype": "bfloat16"}, {"bytes_per_weight": 2}),
        ({"kl_coeff": 0.1}, {"has_reference": True}),
        ({"gradient_checkpointing": True}, {"recomputes_layers": True}),
        ({"dtype": "bfloat16", "lora": LoraSettings(rank=16)}, {"bytes_per_weight": 2, "lora_rank": 16}),
    ],
    ids=["float32", "bfloat16", "reference", "checkpointing", "lora"],
)
def test_the_memory_of_a_step_is_what_the_plan_says(
    learner: dict[str, Any],
    planned: dict[str, Any],
    model_directory: Path,
    record_property: Callable[[str, object], None],
) -> None:
    model = model_dimensions(model_directory)
    settings = TrainingSettings(
        model=model,
        bytes_per_weight=4,
        lora_rank=None,
        has_adam=True,
        has_reference=False,
        has_critic=False,
        is_distributed=False,
        micro_batch_tokens=PASS,
        max_tokens=PROMPT + RESPONSE,
        response_share=RESPONSE / (PROMPT + RESPONSE),
    )
    estimate = learner_memory(replace(settings, **planned))
    gc.collect()
    torch.cuda.empty_cache()
    others = torch.cuda.memory_allocated()
    group = learner_on_gpu(model_directory, optimizer="adamw", lr=1e-5, micro_batch_tokens=PASS, **learner)
    rows = equal_rows(3 * PASS // (PROMPT + RESPONSE), prompt=PROMPT, response=RESPONSE, vocabulary=model.vocabulary)
    # The optimizer's moments are there from the second step on.
    update(group, rows)
    torch.cuda.reset_peak_memory_stats()
    assert update(group, rows)["num_micro_batches"] == 3
    measured = torch.cuda.max_memory_allocated() - others

    expected = estimate.total - estimate.overhead
    record_property("measured_gib", measured / GIB)
    record_property("planned_gib", expected / GIB)
    record_property("measured_for_planned", measured / expected)
    # Of the whole device, and so of other programs too: what is set aside for CUDA, libraries and the allocator.
    free, total = torch.cuda.mem_get_info()
    record_property("beside_tensors_gib", (total - free - torch.cuda.memory_reserved()) / GIB)
    record_property("kept_by_the_allocator_gib", (torch.cuda.max_memory_reserved() - measured - others) / GIB)
    assert BAND[0] <= measured / expected <= BAND[1]
