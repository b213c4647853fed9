"""What a config may say about its learners."""

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
        (GRPOConfig, {"offload_reference": 1}, "offload_reference=1 must be True or False"),
        (GRPOConfig, {"offload_reference": True}, "offload_reference=True does nothing without a reference policy"),
        (GRPOConfig, {"learner_stall_timeout_s": 0}, "learner_stall_timeout_s=0 must be greater than 0, or None"),
        (
            GRPOConfig,
            {"learner_stall_timeout_s": "1h"},
            "learner_stall_timeout_s='1h' must be a finite number, or None",
        ),
        (PPOConfig, {"sharding": "fsdp", "num_learners": 2}, "does not apply to PPOConfig: critics are not sharded"),
    ],
)
def test_what_cannot_work_is_one_clear_error(
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


@pytest.mark.parametrize("kl_coeff", [0.1, [[0, 0.0], [1000, 0.1]]])
def test_offloading_takes_a_reference_of_its_own(tmp_path: Path, kl_coeff: Any) -> None:
    config = (
        GRPOConfig()
        .environment("EZPoints")
        .language_model(model_path=str(save_tiny_model(tmp_path / "model")))
        .generation(max_prompt_tokens=64, max_response_tokens=16)
        .training(kl_coeff=kl_coeff)
        .learners(offload_reference=True)
    )
    config.validate()
    with pytest.raises(ValueError, match="offload_reference=True does nothing with lora_rank=4"):
        config.language_model(lora_rank=4).validate()
