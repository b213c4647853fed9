"""The README's commands, as a new user would type them."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from rllib_gigpo.algorithms.gigpo import GiGPOConfig
from rllib_gigpo.env_adapters import embedded_model_path

pytestmark = pytest.mark.system

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def test_the_python_example_runs(tmp_path):
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert "range(10)" in example and '"/tmp/ezpoints"' in example
    # One iteration instead of ten: it shows that the code is right, not that the model learns.
    script = example.replace("range(10)", "range(1)").replace("/tmp/ezpoints", str(tmp_path / "checkpoint"))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, timeout=240)
    assert done.returncode == 0, done.stderr[-3000:]
    success_rate = float(done.stdout.split()[-1])
    assert 0 <= success_rate <= 1
    assert (tmp_path / "checkpoint" / "rllib_checkpoint.json").exists()


def test_its_make_targets_exist():
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {*re.findall(r"`make (\w+)", README), *re.findall(r"^    make (\w+)$", README, re.MULTILINE)}
    assert {"train", "test"} <= named <= targets


def test_its_links_lead_somewhere():
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_its_command_lines_hold_configs_that_are_accepted():
    (config,) = re.findall(r"--config '(\{.*?\})'", README)
    (stop,) = re.findall(r"--stop '(\{.*?\})'", README)
    values = json.loads(config)
    path = str(embedded_model_path("EZPoints")) if values["model_path"] == "embedded" else values["model_path"]
    GiGPOConfig().environment("EZPoints").update_from_dict(values | {"model_path": path}).validate()
    assert json.loads(stop)["training_iteration"] > 0
    (file,) = re.findall(r"rllib train file (\S+)", README.split("## From the shell")[1])
    assert (ROOT / file).exists()
