"""What a config may say about sharded learners."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rllib_gigpo.algorithms.grpo import GRPOConfig
from rllib_gigpo.algorithms.ppo import PPOConfig
from tests.tiny_models import save_tiny_model

pytestmark = pytest.mark.integration


@pytest.mark.parametrize(
    ("config_class", "learners", "message"),
    [
        (
            GRPOConfig,
            {"sharding": "zero3", "num_learners": 2},
            "sharding='zero3' is unknown; choose one of None, 'fsdp'",
        ),
        (GRPOConfig, {"sharding": "fsdp"}, "num_learners=0: set learners"),
        (GRPOConfig, {"mixed_precision": True, "num_learners": 2}, "mixed_precision=True needs sharded models"),
        (GRPOConfig, {"mixed_precision": "bf16"}, "mixed_precision='bf16' must be True or False"),
        (PPOConfig, {"sharding": "fsdp", "num_learners": 2}, "does not apply to PPOConfig: critics are not sharded"),
    ],
)
def test_impossible_sharding_is_one_clear_error(
    tmp_path: Path, config_class: type[Any], learners: dict[str, Any], message: str
) -> None:
    config = (
        config_class()
        .environment("EZPoints")
        .language_model(model_path=str(save_tiny_model(tmp_path / "model")))
        .generation(max_prompt_tokens=64, max_response_tokens=16)
        .learners(**learners)
    )
    with pytest.raises(ValueError, match=message):
        config.validate()
