"""The documentation builds as a site, and what its pages show runs and is so."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rllib_gigpo import registry
from rllib_gigpo.algorithms.dapo import DAPOConfig
from rllib_gigpo.algorithms.gagpo import GAGPOConfig
from rllib_gigpo.algorithms.gigpo import GiGPOConfig
from rllib_gigpo.algorithms.ppo import PPOConfig
from rllib_gigpo.cli.example_header import example_header

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "WARNING" not in done.stderr
    api = (tmp_path / "reference" / "index.html").read_text()
    assert "step_advantage_weight" in api and "gagpo_advantages" in api


def test_the_figure_of_the_concepts_is_drawn_as_text() -> None:
    figure = (DOCS / "images" / "way_of_the_data.svg").read_text()
    for step in ("plan groups", "play", "step rows", "credit", "update", "new weights"):
        assert f">{step}<" in figure


def test_the_example_of_the_concepts_gives_the_numbers_that_it_shows(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = blocks("concepts.md", "python")
    exec(compile(example, "concepts.md", "exec"), {})
    shown = re.findall(r"# (\[.*?\])", example)
    assert capsys.readouterr().out.splitlines() == shown


@pytest.mark.usefixtures("ray_cluster")
def test_the_example_of_getting_started_trains(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = blocks("getting_started.md", "python")
    # Smaller: that it learns is shown elsewhere.
    smaller = example.replace("range(3)", "range(1)").replace("groups_per_iteration=8", "groups_per_iteration=2")
    smaller = smaller.replace("group_size=8", "group_size=2").replace("evaluation_duration=32", "evaluation_duration=2")
    assert smaller != example
    exec(compile(smaller, "getting_started.md", "exec"), {})
    trained, evaluated = capsys.readouterr().out.splitlines()[-2:]
    assert trained.startswith("1 ")
    assert 0 <= float(evaluated) <= 1


def test_the_config_for_those_who_come_from_verl_agent_is_one() -> None:
    (example,) = blocks("coming_from_verl_agent.md", "python")
    variables: dict[str, Any] = {}
    exec(compile(example, "coming_from_verl_agent.md", "exec"), variables)
    config = variables["config"]
    assert (config.group_size, config.groups_per_iteration, config.step_advantage_weight) == (8, 16, 1.0)


def test_every_key_that_it_names_exists() -> None:
    configs = [GiGPOConfig(), GAGPOConfig(), DAPOConfig(), PPOConfig()]
    tables = [line for line in (DOCS / "coming_from_verl_agent.md").read_text().splitlines() if line.startswith("| `")]
    assert len(tables) > 60
    keys = {key for line in tables for key in re.findall(r"`([a-z]\w+)`", line.split("|")[2])}
    assert {"group_size", "num_minibatches", "critic_lr", "engine_options"} <= keys
    unknown = {key for key in keys if not any(hasattr(config, key) for config in configs)}
    # Two of verl-agent's own, in what is said about one of ours.
    assert unknown == {"mean_std_norm", "mean_norm", "low_var_kl", "kl", "mse"}
    options = {option for line in tables for option in re.findall(r"`(--[\w-]+)`", line)}
    help_text = (ROOT / "rllib_gigpo" / "cli" / "train_options.py").read_text()
    assert options and all(f'"{option}"' in help_text for option in options)


def test_every_setting_of_the_papers_stands_with_its_number() -> None:
    page = (DOCS / "reproducing.md").read_text()
    for header in map(example_header, registry.example_names()):
        if header.kind != "paper":
            continue
        (line,) = [line for line in page.splitlines() if line.startswith("|") and f"`{header.id}`" in line]
        published = re.match(r"([\d.]+)(?: and ([\d.]+))? %", header.expected)  # "86.7 % …", "83.5 and 67.4 % …"
        numbers = [number for number in published.groups() if number] if published else ["–"]
        assert ", ".join(numbers) in line
