"""Loading a config file, Python or YAML, and each thing that can be wrong with it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rllib_gigpo.cli.config_file import load_config_file
from rllib_gigpo.cli.experiment import Checkpoints

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
    (loaded,) = load_config_file(write(GOOD + 'stop = {"training_iteration": 3}\n'))
    assert type(loaded.config).__name__ == "PPOConfig"
    assert loaded.config.env == "CartPole-v1"
    assert loaded.stop == {"training_iteration": 3.0}
    assert loaded.name == "my_config"


def test_a_stop_that_is_given_replaces_the_file_s(write) -> None:
    path = write(GOOD + 'stop = {"training_iteration": 3}\n')
    assert load_config_file(path, stop={"time_total_s": 5.0})[0].stop == {"time_total_s": 5.0}
    assert load_config_file(write(GOOD), stop={"time_total_s": 5.0})[0].stop == {"time_total_s": 5.0}


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
    with pytest.raises(ValueError, match=message) as caught:
        load_config_file(path)
    assert str(path) in str(caught.value)


YAML = """
first:
  run: GiGPO
  env: EZPoints
  stop: {training_iteration: 3, env_runners/success_rate: 0.9}
  num_samples: 2
  max_failures: -1
  storage_path: /tmp/there
  checkpoint_config:
    {checkpoint_frequency: 5, num_to_keep: 2, checkpoint_score_attribute: a/b, checkpoint_score_order: min}
  config:
    lr: 3e-4
    group_size: {grid_search: [4, 8]}
    env_config: {max_steps: 6}
second: {run: GRPO, env: EZPoints, stop: {time_total_s: 1}}
"""


def test_yaml_gives_the_experiments_with_numbers_as_they_are_written(write) -> None:
    first, second = load_config_file(write(YAML, "two.yaml"))
    assert (first.name, second.name) == ("first", "second")
    assert first.config.lr == 3e-4
    assert first.config.group_size == {"grid_search": [4, 8]}
    assert first.config.env_config == {"max_steps": 6}
    assert first.config.env == "EZPoints"
    assert first.stop == {"training_iteration": 3.0, "env_runners/success_rate": 0.9}
    assert (first.num_samples, first.max_failures, first.storage_path) == (2, -1, Path("/tmp/there"))
    assert first.checkpoints == Checkpoints(5, True, 2, "a/b", "min")
    assert first.needs_tune()
    assert not second.needs_tune()
    assert second.config.algo_class.__name__ == "GRPO"


def test_yaml_and_python_give_the_same_config(write) -> None:
    python = """
from rllib_gigpo.algorithms.gigpo import GiGPOConfig
config = GiGPOConfig().environment("EZPoints").training(lr=1e-3, group_size=4).debugging(seed=3)
config.generation(max_response_tokens=32).evaluation(evaluation_duration=4)
stop = {"training_iteration": 1}
"""
    yaml = """
same:
  run: GiGPO
  env: EZPoints
  stop: {training_iteration: 1}
  config: {lr: 1e-3, group_size: 4, seed: 3, max_response_tokens: 32, evaluation_duration: 4}
"""
    (from_python,), (from_yaml,) = load_config_file(write(python)), load_config_file(write(yaml, "same.yml"))
    assert from_python.config.to_dict() == from_yaml.config.to_dict()
    assert from_python.stop == from_yaml.stop


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a:\n  run: GiGPO\n  config: {lr: [1\n", "line 4: not YAML"),
        ("a: {run: GiGPO}\nb: {run: GiGPO}\na: {run: GRPO}\n", "line 3: not YAML: key 'a' stands twice"),
        ("a: !!python/object/apply:os.getcwd []\n", "line 1: not YAML: could not determine a constructor"),
        ("- run: GiGPO\n", "is of type list; it must be a mapping of names to experiments"),
        ("", "is empty; it must be a mapping"),
        ("run: GiGPO\nenv: EZPoints\n", "has `run` at its top; put the experiment under a name"),
        ("a: 3\n", "experiment 'a' of .* is 3; it must be a mapping"),
        ("a: {env: EZPoints, stop: {training_iteration: 1}}\n", "experiment 'a' of .* has no `run`"),
        ("a: {run: [GiGPO], stop: {training_iteration: 1}}\n", "`run` of experiment 'a'"),
        ("a: {run: GiPGO, env: EZPoints}\n", "unknown algorithm 'GiPGO'. Did you mean 'GiGPO'"),
        ("a: {run: GiGPO, env: EZPoints}\n", "experiment 'a' of .* has no `stop`"),
        ("a: {run: GiGPO, stop: 3}\n", "`stop` of experiment 'a' of .* is 3; it must be a dictionary"),
        ("a: {run: GiGPO, stopp: {x: 1}}\n", "unknown key 'stopp'; did you mean 'stop'"),
        ("a: {run: GiGPO, checkpoint_freq: 3}\n", "old key 'checkpoint_freq': write checkpoint_config"),
        ("a: {run: GiGPO, config: [1]}\n", "`config` of experiment 'a' of .* must be a mapping"),
        ("a: {run: GiGPO, config: {grup_size: 1}}\n", "no key 'grup_size'; did you mean 'group_size'"),
        ("a: {run: GiGPO, env: A, config: {env: B}}\n", "has env 'A', and another one, 'B', in config"),
        ("a: {run: GiGPO, config: {framework: tf2}}\n", "sets framework to 'tf2', but there is only torch"),
        ("a: {run: GiGPO, config: {enable_rl_module_and_learner: false}}\n", "only RLlib's new API stack"),
        ("a: {run: GiGPO, config: {lr: {eval: '1'}}}\n", "Tune would run as Python code"),
        ("a: {run: GiGPO, config: {env_config: {x: [{eval: '1'}]}}}\n", "Tune would run as Python code"),
        ("a: {run: GiGPO, stop: {x: 1}, num_samples: 0}\n", "num_samples in experiment 'a' of .* is 0"),
        ("a: {run: GiGPO, stop: {x: 1}, checkpoint_config: {freq: 1}}\n", "unknown key 'freq'"),
        ("a: {run: GiGPO, stop: {x: 1}, checkpoint_config: {num_to_keep: 0}}\n", "num_to_keep in .* is 0"),
    ],
)
def test_what_is_wrong_in_a_yaml_file_is_one_line_that_names_it(write, text: str, message: str) -> None:
    path = write(text, "wrong.yaml")
    with pytest.raises(ValueError, match=f"(?s){message}") as caught:
        load_config_file(path)
    assert str(path) in str(caught.value)


def test_a_path_that_is_no_config_file_is_an_error(write, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"nope\.py does not exist"):
        load_config_file(tmp_path / "nope.py")
    with pytest.raises(ValueError, match="must be Python or YAML"):
        load_config_file(write("", "config.toml"))
    with pytest.raises(ValueError, match="is a folder"):
        load_config_file(tmp_path)
