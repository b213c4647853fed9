"""`rllib example run ID --smoke`: every example runs an iteration on any machine, with a tiny model and little data.

A third of them, another one for each commit; benchmarks/soak_examples.py runs all.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rllib_gigpo import registry
from rllib_gigpo.cli.config_file import load_config_file
from rllib_gigpo.cli.main import app
from rllib_gigpo.cli.smoke import smoke_experiment

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]


def part_of_this_commit() -> list[str]:
    """A third of the ids, by the commit's hash."""
    names = registry.example_names()
    shown = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    commit = int(shown.stdout.strip() or "0", 16)  # no repository: a source distribution
    return [name for index, name in enumerate(names) if index % 3 == commit % 3]


@pytest.mark.usefixtures("ray_cluster")
@pytest.mark.parametrize("example", part_of_this_commit())
def test_an_example_runs_an_iteration_on_any_machine(example: str, tmp_path: Path) -> None:
    config: Any = load_config_file(ROOT / "tuned_examples" / f"{example}.py")[0].config
    if config.env not in registry.environment_names():
        pytest.skip(f"no environment {config.env!r} is installed")
    try:
        registry.environment(config.env).load()
        registry.environment(config.env).make(**registry.environment(config.env).small_env_config).close()
    except ImportError as error:
        pytest.skip(str(error))
    result = CliRunner().invoke(app, ["example", "run", example, "--smoke", "--storage-path", str(tmp_path)])
    assert result.exit_code == 0, result.output
    summary = json.loads(Path(result.stdout.splitlines()[-1]).read_text())
    assert (summary["iterations"], summary["panel_size"]) == (1, 2)


def test_a_setting_for_gpus_becomes_one_for_this_process() -> None:
    (experiment,) = load_config_file(ROOT / "tuned_examples" / "gigpo" / "alfworld_qwen25_7b_lora.py")
    assert experiment.config.num_gpus_per_learner == 1
    config: Any = smoke_experiment(experiment).config
    assert (config.engine, config.num_learners, config.num_env_runners, config.num_gpus_per_learner) == ("hf", 0, 0, 0)
    assert config.lora_rank == 2
    assert config.env_config["max_steps"] == 4
    # What the setting is about stays.
    assert (config.advantage_norm, config.max_prompt_tokens, config.lr) == ("std", 2048, 3e-6)
    positions = json.loads((Path(config.model_path) / "config.json").read_text())["max_position_embeddings"]
    assert positions >= config.max_prompt_tokens + config.max_response_tokens
    config.validate()


def test_of_a_sweep_the_first_point_runs() -> None:
    from ray import tune

    (experiment,) = load_config_file(ROOT / "tuned_examples" / "gigpo" / "ezpoints_text_tiny.py")
    config: Any = experiment.config.copy(copy_frozen=False).training(lr=tune.grid_search([3e-3, 1e-3]))
    smoke = smoke_experiment(type(experiment)("sweep", config, experiment.stop, num_samples=8))
    assert smoke.config.lr == 3e-3
    assert not smoke.needs_tune()
