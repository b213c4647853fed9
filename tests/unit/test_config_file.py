"""Loading a Python config file, and each thing that can be wrong with it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from rllib_gigpo.cli.config_file import ConfigFileError, check_stop, load_config_file

pytestmark = pytest.mark.unit

GOOD = 'from ray.rllib.algorithms.ppo import PPOConfig\nconfig = PPOConfig().environment("CartPole-v1")\n'


@pytest.fixture
def write(tmp_path: Path):
    def write(text: str, name: str = "my_config.py") -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def test_config_stop_and_name_are_taken_from_the_file(write) -> None:
    loaded = load_config_file(write(GOOD + 'stop = {"training_iteration": 3}\n'))
    assert type(loaded.config).__name__ == "PPOConfig"
    assert loaded.config.env == "CartPole-v1"
    assert loaded.stop == {"training_iteration": 3.0}
    assert loaded.name == "my_config"


def test_a_stop_that_is_given_replaces_the_file_s(write) -> None:
    path = write(GOOD + 'stop = {"training_iteration": 3}\n')
    assert load_config_file(path, stop={"time_total_s": 5.0}).stop == {"time_total_s": 5.0}
    assert load_config_file(write(GOOD), stop={"time_total_s": 5.0}).stop == {"time_total_s": 5.0}


def test_loading_leaves_no_trace_in_sys_path_and_sys_modules(write) -> None:
    path = write(GOOD + 'stop = {"training_iteration": 3}\n')
    load_config_file(path)
    before = list(sys.path), set(sys.modules)
    load_config_file(path)
    assert (list(sys.path), set(sys.modules)) == before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("stop = {'training_iteration': 3}\n", "has no module variable `config`"),
        (GOOD, "has no module variable `stop` and no --stop was given"),
        ("config = {'lr': 0.1}\n", "`config` in .* is of type dict; it must be an AlgorithmConfig"),
        (
            "from ray.rllib.algorithms.ppo import PPOConfig as config\n",
            "`config` in .* is the class PPOConfig, not an instance",
        ),
        (
            "from ray.rllib.algorithms.algorithm_config import AlgorithmConfig\nconfig = AlgorithmConfig()\n",
            "`config` in .* is a plain AlgorithmConfig of no algorithm",
        ),
        ("\nimport package_that_is_not_there\n", "line 2: ModuleNotFoundError: .*package_that_is_not_there"),
        ("def f():\n    raise KeyError('k')\n\nf()\n", "line 2: KeyError: 'k'"),
        ("config = (\n", "line 1: SyntaxError"),
        (GOOD + "stop = 40\n", "`stop` in .* is 40; it must be a dictionary"),
        (GOOD + "stop = {}\n", "`stop` in .* is {}; it must be a dictionary"),
        (GOOD + "stop = {'training_iteration': '40'}\n", "`stop` in .* has 'training_iteration': '40'"),
    ],
)
def test_what_is_wrong_in_the_file_is_one_line_that_names_it(write, text: str, message: str) -> None:
    path = write(text)
    with pytest.raises(ConfigFileError, match=message) as caught:
        load_config_file(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("stop", [{"training_iteration": True}, {"a": float("nan")}, {1: 2}, [], None])
def test_stops_that_could_never_be_reached_are_refused(stop: object) -> None:
    with pytest.raises(ConfigFileError, match=re.escape("--stop")):
        check_stop(stop, "--stop")


def test_a_path_that_is_no_python_file_is_an_error(write, tmp_path: Path) -> None:
    with pytest.raises(ConfigFileError, match=r"nope\.py does not exist"):
        load_config_file(tmp_path / "nope.py")
    with pytest.raises(ConfigFileError, match="must be a Python file"):
        load_config_file(write("", "config.yaml"))
    with pytest.raises(ConfigFileError, match="is a folder"):
        load_config_file(tmp_path)
