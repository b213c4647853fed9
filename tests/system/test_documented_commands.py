"""The commands of the documentation, as they stand there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray
from typer.testing import CliRunner

from rllib_gigpo.cli.main import app
from rllib_gigpo.cli.runs import Runs

pytestmark = pytest.mark.system

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def commands(page: Path) -> list[str]:
    """Lines of its code blocks that call `rllib`."""
    # Of every language, or a closing fence would be taken for an opening one.
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    blocks = [text for language, text in fenced if language in ("", "bash")]
    indented = re.findall(r"^    (rllib .*)$", page.read_text(), re.MULTILINE)
    return [line for block in blocks for line in block.splitlines() if line.startswith("rllib ")] + indented


def run(command: str, exit_code: int = 0):
    result = CliRunner().invoke(app, shlex.split(command)[1:])
    assert result.exit_code == exit_code, f"{command}: {result.output}"
    return result


@pytest.fixture
def at_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the commands are typed."""
    monkeypatch.chdir(ROOT)


@pytest.fixture
def ray_cluster() -> Iterator[None]:
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.mark.usefixtures("at_root", "ray_cluster")
def test_getting_started_leads_from_nothing_to_a_model(tmp_path: Path) -> None:
    typed = commands(ROOT / "docs" / "getting_started.md")
    assert len(typed) == 9
    run_folder = None
    for command in typed:
        if command == "rllib doctor":
            continue  # has a test of its own
        if command == "rllib example run gigpo/ezpoints_text_tiny":
            continue  # the same for two minutes
        if "--smoke" in command:
            shown = run(f"{command} --storage-path {tmp_path}").stdout
            run_folder = Path(shown.splitlines()[-1]).parent
            continue
        command = command.replace("RUN", str(run_folder)).replace("MODEL", str(tmp_path / "model"))
        run(command.replace("--episodes 256", "--episodes 2"))
    assert run_folder is not None
    assert (run_folder / "report.html").is_file()
    assert (tmp_path / "model" / "model.safetensors").is_file()


@pytest.mark.usefixtures("at_root")
def test_every_training_that_is_documented_is_accepted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """All checks, up to the start of Ray."""
    started: list[Runs] = []

    def note(runs: Runs) -> Iterator[Path]:
        started.append(runs)
        return iter(())

    monkeypatch.setattr(Runs, "run", note)
    trainings = [
        command
        for page in PAGES
        for command in commands(page)
        # Those of tiny models; a run to resume is another test's.
        if re.match(r"rllib (train|example run) \S*.*tiny", command) and "--resume" not in command
    ]
    assert len(trainings) >= 7
    for command in trainings:
        run(f"{command} --storage-path {tmp_path}")
    assert len(started) == len(trainings)


@pytest.mark.usefixtures("at_root")
def test_every_plan_that_is_documented_fits() -> None:
    plans = {command for page in PAGES for command in commands(page) if command.startswith("rllib plan tuned")}
    assert plans
    for command in plans:
        assert "These are estimates" in run(command).stdout
