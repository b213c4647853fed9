"""`rllib` trains, sweeps, continues and evaluates as a user starts it; small, so that each run takes seconds."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import ray
import yaml
from safetensors.numpy import load_file
from typer.testing import CliRunner

from rllib_gigpo.cli.main import app
from rllib_gigpo.env_adapters import embedded_model_path

pytestmark = pytest.mark.system

CONFIG = {
    "max_prompt_tokens": 160,
    "max_response_tokens": 32,
    "group_size": 4,
    "groups_per_iteration": 2,
    "lr": 1e-3,
    "evaluation_duration": 4,
    "num_env_runners": 0,
    "num_learners": 0,
    "seed": 0,
}
PYTHON = f"""
from rllib_gigpo.algorithms.gigpo import GiGPOConfig

config = (
    GiGPOConfig()
    .environment("EZPoints")
    .language_model(model_path={str(embedded_model_path("EZPoints"))!r})
    .generation(max_prompt_tokens=160, max_response_tokens=32)
    .training(group_size=4, groups_per_iteration=2, lr=1e-3)
    .evaluation(evaluation_duration=4)
    .env_runners(num_env_runners=0)
    .learners(num_learners=0)
    .debugging(seed=0)
)
stop = {{"training_iteration": 2}}
"""


@pytest.fixture(scope="module", autouse=True)
def ray_cluster():
    """The command uses a Ray that is running already."""
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def rllib(*arguments: object, exit_code: int = 0):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == exit_code, result.output
    return result


def written_path(result) -> Path:
    """The last line that a training prints."""
    return Path(result.stdout.splitlines()[-1])


def yaml_file(path: Path, **changes: object) -> Path:
    config = {"model_path": "embedded", **CONFIG, **changes}
    spec = {"run": "GiGPO", "env": "EZPoints", "stop": {"training_iteration": 2}, "config": config}
    path.write_text(yaml.safe_dump({path.stem: spec}))
    return path


def last_result(run_dir: Path) -> dict:
    return json.loads((run_dir / "result.json").read_text().splitlines()[-1])


def weights_in(checkpoint: Path) -> dict[str, np.ndarray]:
    (file,) = checkpoint.glob("learner_group/learner/rl_module/*/huggingface/model.safetensors")
    return load_file(file)


def assert_same_weights(a: Path, b: Path) -> None:
    first, second = weights_in(a), weights_in(b)
    assert first.keys() == second.keys()
    # The same computation on the same machine with the same number of threads.
    assert all(np.array_equal(first[name], second[name]) for name in first)


@pytest.fixture(scope="module")
def python_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a run of a Python file."""
    directory = tmp_path_factory.mktemp("python")
    (directory / "tiny.py").write_text(PYTHON)
    return written_path(rllib("train", "file", directory / "tiny.py", "--storage-path", directory)).parent


def test_python_yaml_and_options_give_the_same_run(python_run: Path, tmp_path: Path) -> None:
    config = json.dumps({"model_path": "embedded", **CONFIG})
    options = ["-a", "GiGPO", "-e", "EZPoints", "-c", config, "-s", '{"training_iteration": 2}']
    as_json = json.loads(rllib("train", *options, "--storage-path", tmp_path, "--json").stdout)
    others = [
        written_path(rllib("train", "file", yaml_file(tmp_path / "tiny.yaml"), "--storage-path", tmp_path)),
        Path(as_json["summary"]),
    ]
    expected = last_result(python_run)
    assert expected["training_iteration"] == 2
    for other in others:
        run_dir = other.parent
        result = last_result(run_dir)
        for key in ("success_rate", "episode_return_mean", "episode_len_mean", "response_tokens_mean"):
            assert result["env_runners"][key] == expected["env_runners"][key]
        for key in ("entropy", "gradient_norm"):
            assert result["learners"]["default_policy"].get(key) == expected["learners"]["default_policy"].get(key)
        assert_same_weights(run_dir / "checkpoint", python_run / "checkpoint")
    assert as_json["run"] == str(run_dir)
    assert as_json["metrics"]["env_runners/success_rate"] == expected["env_runners"]["success_rate"]
    assert as_json.items() >= json.loads(others[1].read_text()).items()


def test_a_run_leaves_a_summary_logs_and_the_way_to_evaluate_it(python_run: Path) -> None:
    summary = json.loads((python_run / "summary.json").read_text())
    assert summary["iterations"] == 2
    assert summary["panel_size"] == 4
    assert {"progress.csv", "result.json", "params.json"} <= {path.name for path in python_run.iterdir()}
    assert len(list((python_run / "trajectories").iterdir())) == 2
    assert list(python_run.glob("events.out.tfevents.*"))


def test_a_restored_run_continues_with_the_weights_and_the_count_of_the_checkpoint(
    python_run: Path, tmp_path: Path
) -> None:
    file = yaml_file(tmp_path / "on.yaml")
    stop = '{"training_iteration": 3}'
    restore = ["--restore", python_run / "checkpoint"]
    continued = rllib("train", "file", file, "--storage-path", tmp_path / "a", "-s", stop, *restore)
    straight = rllib("train", "file", file, "--storage-path", tmp_path / "b", "-s", stop)
    assert "iteration 1 " not in continued.stdout
    assert_same_weights(written_path(continued).parent / "checkpoint", written_path(straight).parent / "checkpoint")


def test_report_writes_one_file_with_what_the_run_recorded(python_run: Path, tmp_path: Path) -> None:
    result = rllib("report", python_run, "--out", tmp_path / "report.html")
    assert result.stdout == f"report: {tmp_path / 'report.html'}\n"
    page = (tmp_path / "report.html").read_text()
    assert 'id="trajectories-0-2"' in page
    assert "Step groups by size" in page
    wrong = rllib("report", python_run / "checkpoint", exit_code=2)
    assert "has no result.json" in wrong.output
    wrong = rllib("report", python_run, "--out", tmp_path / "nowhere" / "report.html", exit_code=2)
    assert "does not exist" in wrong.output


def test_evaluate_plays_the_panel_of_the_training_and_writes_it(python_run: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    result = rllib("evaluate", python_run / "checkpoint", "--out", out, "--json")
    numbers = json.loads(out.read_text())
    assert json.loads(result.stdout) == numbers
    summary = json.loads((python_run / "summary.json").read_text())
    assert numbers["panel_hash"] == summary["panel_hash"]
    assert numbers["success_rate"] == summary["success_after"]
    assert numbers["training_iteration"] == 2
    assert 0 <= numbers["success_rate"] <= 1


def test_evaluate_takes_another_panel_and_other_sampling(python_run: Path) -> None:
    checkpoint = python_run / "checkpoint"
    greedy = ["evaluate", checkpoint, "--episodes", 16, "--config", '{"temperature": 0}', "--json"]
    numbers = json.loads(rllib(*greedy).stdout)
    assert numbers["panel_size"] == 16
    assert numbers == json.loads(rllib(*greedy).stdout)
    random = json.loads(rllib("evaluate", checkpoint, "--episodes", 16, "--json").stdout)
    assert random["panel_hash"] == numbers["panel_hash"]
    assert random["response_tokens_mean"] != numbers["response_tokens_mean"] or random["endings"] != numbers["endings"]
    wrong = rllib("evaluate", checkpoint, "--config", '{"temprature": 0}', exit_code=2)
    assert "did you mean 'temperature'" in wrong.stderr


def test_a_trained_model_prompted_as_in_training_plays_as_its_checkpoint_does(python_run: Path) -> None:
    checkpoint = python_run / "checkpoint"
    (model,) = checkpoint.glob("learner_group/learner/rl_module/*/huggingface")
    trained = json.loads(rllib("evaluate", checkpoint, "--episodes", 16, "--json").stdout)
    prompted = ["--agent", "prompt", "--engine", "hf", "--model", model, "--env", "EZPoints", "--temperature", 1]
    as_trained = ["--max-response-tokens", 32, "--seed", CONFIG["seed"], "--episodes", 16]
    numbers = json.loads(rllib("evaluate", *prompted, *as_trained, "--json").stdout)
    assert 0 < numbers["success_rate"] < 1
    for name in ("success_rate", "panel_hash", "episode_len_mean", "invalid_action_share"):
        assert numbers[name] == trained[name], name


def test_a_truncated_checkpoint_is_named(python_run: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(python_run / "checkpoint", tmp_path / "copy")
    (copy / "learner_group" / "learner" / "state.pkl").unlink()
    missing = "learner_group/learner/state.pkl is missing"
    assert missing in rllib("evaluate", copy, exit_code=2).stderr
    file = yaml_file(tmp_path / "on.yaml")
    assert missing in rllib("train", "file", file, "--restore", copy, exit_code=2).stderr


def test_a_run_without_room_is_an_error_and_not_a_wait(tmp_path: Path) -> None:
    file = yaml_file(tmp_path / "big.yaml", num_learners=1, num_gpus_per_learner=64)
    result = rllib("train", "file", file, "--storage-path", tmp_path, exit_code=2)
    assert "asks for 1 CPU, 64 GPU (2 processes), but Ray has 2 CPU, 0 GPU" in result.stderr


def test_a_sweep_names_its_best_trial(tmp_path: Path) -> None:
    searched = {"lr": {"grid_search": [1e-3, 3e-3]}, "step_advantage_weight": {"grid_search": [0.0, 1.0]}}
    result = rllib("train", "file", yaml_file(tmp_path / "sweep.yaml", **searched), "--storage-path", tmp_path)
    sweep = json.loads(written_path(result).read_text())
    trials = {trial["trial"]: trial for trial in sweep["trials"]}
    assert sorted(trial["parameters"] for trial in trials.values()) == [
        f"lr={lr}, step_advantage_weight={weight}" for lr in (0.001, 0.003) for weight in (0, 1)
    ]
    scores = {name: trial["score"] for name, trial in trials.items()}
    assert scores[sweep["best"]] == max(scores.values())
    assert all(trial["metrics"]["training_iteration"] == 2 for trial in trials.values())
    assert f"best by env_runners/success_rate: {sweep['best']}" in result.stdout
    assert f"rllib evaluate {trials[sweep['best']]['checkpoints'][-1]}" in result.stdout
    # What it says to try.
    best = sweep["best_checkpoint"]
    assert json.loads(rllib("evaluate", best, "--json").stdout)["training_iteration"] == 2
    assert rllib("export", best, tmp_path / "model").stdout == f"model: {tmp_path / 'model'}\n"
    run_dir = written_path(result).parent
    # It has ended, so that to resume it is to look at it again.
    resumed = rllib("train", "file", tmp_path / "sweep.yaml", "--storage-path", tmp_path, "--resume", "--json")
    assert json.loads(resumed.stdout) == {"run": str(run_dir), "summary": str(run_dir / "trials.json"), **sweep}
    assert sweep["best_checkpoint"] == trials[sweep["best"]]["checkpoints"][-1]
    for name in trials:
        assert (run_dir / name / "progress.csv").is_file()
        assert list((run_dir / name).glob("events.out.tfevents.*"))
