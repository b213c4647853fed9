"""The example of docs/adding_an_environment.md, as it stands there: registered, checked and trained."""

from __future__ import annotations

import json
import re
import runpy
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rllib_gigpo import registry
from rllib_gigpo.cli.main import app
from rllib_gigpo.env_adapters import embedded_model_path

pytestmark = pytest.mark.integration

PAGE = (Path(__file__).parents[2] / "docs" / "adding_an_environment.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def installed(ray_cluster: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the path with the page's package, and its entry point as an installer writes it."""
    package, metadata = tmp_path / "my_package", tmp_path / "my_package-1.0.dist-info"
    package.mkdir()
    metadata.mkdir()
    (package / "__init__.py").touch()
    (package / "lamps.py").write_text(blocks("python")[0], encoding="utf-8")
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: my_package\nVersion: 1.0\n")
    (toml,) = blocks("toml")
    entry = toml.replace('[project.entry-points."', "[").replace('"]', "]").replace('"', "")
    (metadata / "entry_points.txt").write_text(entry)
    monkeypatch.syspath_prepend(str(tmp_path))
    registry.register_with_ray()
    yield tmp_path
    for name in [name for name in sys.modules if name.split(".")[0] == "my_package"]:
        del sys.modules[name]


def test_the_example_is_checked_and_trained(installed: Path) -> None:
    answer = CliRunner().invoke(app, ["doctor", "env", "Lamps", "--episodes", "6", "--json"])
    assert answer.exit_code == 0, answer.output
    status = {result["name"]: result["status"] for result in json.loads(answer.stdout)}
    assert {name for name in status if status[name] not in ("pass", "info")} == {"anchor state"}
    documented = " ".join(re.findall(r"^\| (`.*?) \|", PAGE.partition("| check |")[2], re.MULTILINE))
    assert all(name.removeprefix("determinism, ") in documented for name in status)

    script = installed / "train_lamps.py"
    training = "\n".join(blocks("python")[1:-1])
    # A tiny model, which writes the longest response that it may.
    training = training.replace("path/of/a/model", str(embedded_model_path("EZPoints")))
    script.write_text(training.replace("max_response_tokens=64", "max_response_tokens=16"))
    found = runpy.run_path(str(script))
    assert found["result"]["training_iteration"] == 1
    assert found["result"]["env_runners"]["endings"].get("env_failure", 0) == 0
    assert 0 <= found["result"]["env_runners"]["success_rate"] <= 1
    found["config"].validate()

    (command,) = re.findall(r"^rllib train .*$", PAGE, re.MULTILINE)
    answer = CliRunner().invoke(app, [*shlex.split(command)[1:], "--json", "--storage-path", str(installed)])
    assert answer.exit_code == 0, answer.output
    assert json.loads(answer.stdout)["iterations"] == 1


def test_the_tests_of_the_example_pass(installed: Path) -> None:
    script = installed / "test_lamps.py"
    script.write_text(blocks("python")[-1].replace("path/of/a/model", str(embedded_model_path("EZPoints"))))
    tests = {name: test for name, test in runpy.run_path(str(script)).items() if name.startswith("test_")}
    assert len(tests) == 4
    for test in tests.values():
        test()
