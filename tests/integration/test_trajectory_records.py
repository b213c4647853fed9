"""The recorded trajectories of a training iteration say what was played and what it was worth."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest
from PIL import Image

from rllib_gigpo.algorithms.grpo.grpo import GRPOConfig
from rllib_gigpo.algorithms.ppo.ppo import PPOConfig
from rllib_gigpo.env_adapters import embedded_model_path
from tests.algorithm_cases import record_samples, small_config

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("ray_cluster")]


def records_in(path: Path) -> list[dict]:
    with gzip.open(path, "rt") as file:
        return [json.loads(line) for line in file]


def test_the_first_groups_of_an_iteration_are_recorded_with_the_credit_that_is_trained_on(tmp_path: Path) -> None:
    algo = small_config(step_advantage_weight=0.5).reporting(recorded_groups=3).build_algo()
    algo.recorder.folder = tmp_path / "trajectories"
    episodes = record_samples(algo)
    algo.train()
    algo.stop()
    records = records_in(tmp_path / "trajectories" / "iteration_000001.jsonl.gz")
    assert [(r["group_id"], r["member"]) for r in records] == [(g, m) for g in range(3) for m in range(4)]
    for record, episode in zip(records, episodes, strict=False):
        assert [step["observation"] for step in record["steps"]] == list(episode.get_observations())[:-1]
        assert [step["reward"] for step in record["steps"]] == list(episode.get_rewards())
        assert record["return"] == sum(episode.get_rewards())
        assert record["won"] == episode.get_infos(-1)["won"]
        reasons = [info.get("invalid_reason") for info in episode.get_infos()[1:]]
        assert [step["invalid_reason"] for step in record["steps"]] == reasons
        assert [step["action"] for step in record["steps"]] == list(episode.get_actions())
        assert all(
            f"<action>{step['action']}</action>" in step["response"] for step in record["steps"] if step["action"]
        )
    steps = [step for record in records for step in record["steps"]]
    for step in steps:
        # Numbers are rounded to 6 decimals.
        expected = step["episode_advantage"] + 0.5 * step["step_advantage"]
        assert step["advantage"] == pytest.approx(expected, abs=3e-6)
    for record_group in range(3):
        shown = [step for r in records if r["group_id"] == record_group for step in r["steps"]]
        counts = Counter(step["observation"] for step in shown)
        assert [step["anchor_size"] for step in shown] == [counts[step["observation"]] for step in shown]
        assert len({step["anchor"] for step in shown}) == len(counts)


@pytest.mark.parametrize("config_class", [GRPOConfig, PPOConfig])
def test_an_algorithm_that_compares_no_steps_has_no_anchors_in_its_records(tmp_path: Path, config_class: type) -> None:
    algo = small_config(config_class).reporting(recorded_groups=1).build_algo()
    algo.recorder.folder = tmp_path
    algo.train()
    algo.stop()
    (path,) = tmp_path.iterdir()
    steps = [step for record in records_in(path) for step in record["steps"]]
    assert steps
    assert all("anchor" not in step and isinstance(step["advantage"], float) for step in steps)


def test_no_groups_no_files_and_a_folder_that_cannot_be_written_does_not_end_the_training(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    algo = small_config().reporting(recorded_groups=0).build_algo()
    algo.recorder.folder = tmp_path / "none"
    algo.train()
    algo.stop()
    assert not (tmp_path / "none").exists()
    (tmp_path / "file").touch()
    algo = small_config().build_algo()
    algo.recorder.folder = tmp_path / "file" / "trajectories"
    assert algo.train()["training_iteration"] == 1
    algo.stop()
    assert "trajectories of iteration 1 could not be written" in caplog.text


def test_a_wrong_number_of_groups_is_named() -> None:
    with pytest.raises(ValueError, match="recorded_groups=-1 must be an integer of at least 0"):
        small_config().reporting(recorded_groups=-1).validate()


def test_pictures_are_recorded_beside_the_steps_that_show_them(tmp_path: Path) -> None:
    config = small_config(group_size=2, groups_per_iteration=1)
    config.environment(env_config={"observation": "image"})
    config.language_model(model_path=str(embedded_model_path("EZPoints", observation="image")))
    config.generation(max_prompt_tokens=200, max_response_tokens=8)
    algo = config.build_algo()
    algo.recorder.folder = tmp_path
    algo.train()
    algo.stop()
    records = records_in(tmp_path / "iteration_000001.jsonl.gz")
    named = {step["image"] for record in records for step in record["steps"]}
    assert named == {path.stem for path in (tmp_path / "images").iterdir()}
    assert all(Image.open(tmp_path / "images" / f"{name}.png").size == (256, 256) for name in named)
