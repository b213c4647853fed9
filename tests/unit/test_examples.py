"""The list of tuned examples, and the settings of the papers: what they say, and that they say what the papers do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rllib_gigpo import registry
from rllib_gigpo.cli.config_file import load_config_file
from rllib_gigpo.cli.example_header import ExampleHeader, example_header
from rllib_gigpo.cli.main import app

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]


def listed(*options: str) -> list[dict[str, Any]]:
    result = CliRunner().invoke(app, ["example", "list", "--json", *options])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def papers() -> list[ExampleHeader]:
    return [header for header in map(example_header, registry.example_names()) if header.kind == "paper"]


def test_a_header_tells_source_hardware_result_and_whether_it_was_run(papers: list[ExampleHeader]) -> None:
    assert len(papers) >= 31
    for header in papers:
        assert header.source and header.hardware and header.expected and header.run_here.startswith("no")
    (lora,) = [header for header in papers if header.id == "gigpo/alfworld_qwen25_7b_lora"]
    assert (lora.algorithm, lora.environment, lora.hardware) == ("gigpo", "alfworld", "4 GPUs of 80 GB")


def test_the_list_is_filtered_by_kind_algorithm_and_environment() -> None:
    assert {found["kind"] for found in listed()} == {"tiny", "paper"}
    assert all(found["hardware"] == "" for found in listed("--kind", "tiny"))
    of_both = listed("--algo", "GiGPO", "--env", "ALFWorld")
    assert {found["id"].split("_")[0] for found in of_both} == {"gigpo/alfworld"}
    result = CliRunner().invoke(app, ["example", "list", "--kind", "large"])
    assert (result.exit_code, result.stderr.strip()) == (2, "Error: --kind 'large' must be tiny or paper")


def test_every_text_setting_of_the_papers_is_there(papers: list[ExampleHeader]) -> None:
    ids = {header.id for header in papers}
    for algorithm in ("gigpo", "gagpo", "grpo", "rloo", "ppo"):
        for environment in ("alfworld", "webshop"):
            for model in ("qwen25_1_5b", "qwen25_7b"):
                assert f"{algorithm}/{environment}_{model}" in ids
    assert {f"gigpo/alfworld_{rest}" for rest in ("qwen25_1_5b_mean", "qwen25_7b_mean", "qwen25_7b_lora")} <= ids
    assert {f"gigpo/webshop_qwen25_{rest}" for rest in ("1_5b_std", "7b_std", "1_5b_dynamic")} <= ids
    assert "dapo/webshop_qwen25_1_5b" in ids
    for model in ("qwen3_1_7b", "llama32_1b"):
        assert {f"gigpo/alfworld_{model}", f"gigpo/webshop_{model}"} <= ids


def config_of(example: str) -> Any:
    (experiment,) = load_config_file(ROOT / "tuned_examples" / f"{example}.py")
    assert experiment.stop == {"training_iteration": 150}
    return experiment.config


@pytest.mark.parametrize(
    ("example", "expected"),
    [
        # The columns of the papers' table: groups × N, prompt / response, norm, learning rate, β.
        ("gigpo/alfworld_qwen25_1_5b", (16, 8, 2048, 512, "std", 1e-6, 0.01)),
        ("gigpo/alfworld_qwen25_7b_mean", (16, 8, 2048, 512, "mean", 1e-6, 0.01)),
        ("gigpo/alfworld_qwen25_7b_lora", (16, 8, 2048, 512, "std", 3e-6, 0.0)),
        ("gigpo/webshop_qwen25_7b", (16, 8, 4096, 512, "mean", 1e-6, 0.01)),
        ("ppo/webshop_qwen25_1_5b", (128, 1, 4096, 512, "std", 1e-6, 0.01)),
    ],
)
def test_the_numbers_are_those_of_the_papers(example: str, expected: tuple[Any, ...]) -> None:
    config = config_of(example)
    keys = ("groups_per_iteration", "group_size", "max_prompt_tokens", "max_response_tokens", "advantage_norm", "lr")
    assert tuple(getattr(config, key) for key in (*keys, "kl_coeff")) == expected
    assert (config.temperature, config.evaluation_config["temperature"]) == (1.0, 0.4)
    assert (config.invalid_action_penalty, config.evaluation_interval) == (0.1, 5)


def test_gigpo_dynamic_is_gigpo_with_what_dapo_has() -> None:
    dynamic, dapo = config_of("gigpo/webshop_qwen25_1_5b_dynamic"), config_of("dapo/webshop_qwen25_1_5b")
    for config in (dynamic, dapo):
        assert (config.dynamic_sampling, config.clip_low, config.clip_high) == (True, 0.2, 0.28)
    assert config_of("gigpo/alfworld_qwen25_7b_lora").lora_rank == 64
    assert config_of("ppo/alfworld_qwen25_7b").critic_lr == 1e-5
