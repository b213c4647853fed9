"""GiGPO on image EZPoints with a tiny vision-language model, in one process: training, restoring, exporting."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForImageTextToText
from typer.testing import CliRunner

from rllib_gigpo.algorithms.gigpo import GiGPOConfig
from rllib_gigpo.cli.main import app
from tests.algorithm_cases import largest_difference, small_config, weights_of
from tests.tiny_models import save_tiny_model, save_tiny_vlm

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("ray_cluster")]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_vlm(tmp_path_factory.mktemp("vlm"))


def image_config(directory: Path, **language_model: Any) -> GiGPOConfig:
    return (
        small_config(kl_coeff=0.01, train_on_zero_signal_groups=True, num_minibatches=2)
        .environment("EZPoints", env_config={"observation": "image", "max_steps": 2})
        .language_model(model_path=str(directory), **language_model)
        .generation(max_prompt_tokens=400, max_response_tokens=4)
        .evaluation(evaluation_duration=2)
    )


def test_an_iteration_trains_tower_and_language_model_and_can_be_restored_and_exported(
    directory: Path, tmp_path: Path
) -> None:
    algo = image_config(directory).build_algo()
    try:
        before = weights_of(algo)
        results = algo.train()
        after = weights_of(algo)
        assert results["num_env_steps_sampled_lifetime"] == 4 * 4 * 2
        # What the engine samples with is what the learner has, pictures included.
        assert results["learners"]["default_policy"]["sampler_learner_gap_mean"] < 1e-5
        assert results["weight_delivery"]["weights_probe_gap_max"] < 1e-5
        changed = {name for name in before if not np.array_equal(before[name], after[name])}
        assert any(".visual." in name for name in changed) and any("language_model" in name for name in changed)
        assert algo.evaluate()["env_runners"]["panel_size"] == 2
        algo.save_to_path(tmp_path / "checkpoint")
    finally:
        algo.stop()

    restored = image_config(directory).build_algo()
    try:
        restored.restore_from_path(tmp_path / "checkpoint")
        assert largest_difference(weights_of(restored), after) == 0.0
    finally:
        restored.stop()

    answer = CliRunner().invoke(app, ["export", str(tmp_path / "checkpoint"), str(tmp_path / "model")])
    assert answer.exit_code == 0, answer.output
    exported = AutoModelForImageTextToText.from_pretrained(tmp_path / "model", dtype=torch.float32).state_dict()
    assert all(np.array_equal(exported[name].numpy(), array) for name, array in after.items())
    assert (tmp_path / "model" / "preprocessor_config.json").is_file()


def test_an_adapter_beside_a_frozen_tower_is_trained_and_merged(directory: Path, tmp_path: Path) -> None:
    algo = image_config(directory, lora_rank=2, freeze_vision_tower=True).build_algo()
    try:
        results = algo.train()
        assert results["weight_delivery"]["weights_probe_gap_max"] < 1e-5
        assert not any(".visual." in name for name in weights_of(algo))
        algo.save_to_path(tmp_path / "checkpoint")
    finally:
        algo.stop()
    answer = CliRunner().invoke(app, ["export", str(tmp_path / "checkpoint"), str(tmp_path / "model"), "--merge"])
    assert answer.exit_code == 0, answer.output
    base = AutoModelForImageTextToText.from_pretrained(directory).state_dict()
    merged = AutoModelForImageTextToText.from_pretrained(tmp_path / "model").state_dict()
    changed = {name for name in base if not torch.equal(base[name], merged[name])}
    assert changed and not any(".visual." in name for name in changed)
    assert (tmp_path / "model" / "preprocessor_config.json").is_file()


def test_a_text_only_model_on_pictures_is_an_error_that_names_what_reads_them(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"shows arrays \('image'\).*reads text alone.*qwen2_5_vl"):
        image_config(save_tiny_model(tmp_path)).build_algo()


def test_values_that_do_not_fit_a_model_are_errors_before_anything_starts(directory: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="freeze_vision_tower=True does nothing: the model"):
        image_config(save_tiny_model(tmp_path), freeze_vision_tower=True).validate()
    with pytest.raises(ValueError, match="max_position_embeddings=512"):
        image_config(directory).generation(max_prompt_tokens=600).validate()


def test_a_vision_language_model_trains_on_text_too(directory: Path) -> None:
    config = image_config(directory).environment("EZPoints", env_config={"max_steps": 2})
    config.env_config.pop("observation")
    algo = config.build_algo()
    try:
        results = algo.train()
        assert results["learners"]["default_policy"]["sampler_learner_gap_mean"] < 1e-5
    finally:
        algo.stop()
