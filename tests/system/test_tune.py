"""Ray Tune trains our algorithms: by name, by class, with search spaces, after failures, and after kill -9."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
from ray import tune
from safetensors.numpy import load_file

from rllib_gigpo.algorithms.gigpo import GiGPO, GiGPOConfig
from rllib_gigpo.env_adapters import embedded_model_path

pytestmark = pytest.mark.system

ITERATIONS = 4
KILLED_IN = 3
MODEL = str(embedded_model_path("EZPoints"))
# Hangs in iteration KILLED_IN as long as the file `hang` exists, and makes the file `hanging` first.
KILLED_RUN = f"""
import time
from pathlib import Path
import ray
from ray import tune
from rllib_gigpo.algorithms.gigpo import GiGPOConfig

folder = Path({{folder!r}})

def hang(algorithm, result, **_):
    if result["training_iteration"] == {KILLED_IN} and (folder / "hang").exists():
        (folder / "hanging").touch()
        time.sleep(600)

config = (
    GiGPOConfig()
    .environment("EZPoints")
    .language_model(model_path={MODEL!r})
    .generation(max_prompt_tokens=160, max_response_tokens=32)
    .training(group_size=4, groups_per_iteration=2, lr=tune.grid_search([1e-3]))
    .env_runners(num_env_runners=0)
    .learners(num_learners=0)
    .debugging(seed=0)
    .callbacks(on_train_result=hang)
)
ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
tune.Tuner(
    "GiGPO",
    param_space=config,
    run_config=tune.RunConfig(
        name="run",
        storage_path=str(folder),
        stop={{{{"training_iteration": {ITERATIONS}}}}},
        checkpoint_config=tune.CheckpointConfig(checkpoint_frequency=1),
        verbose=0,
    ),
).fit()
"""


@pytest.fixture(scope="module", autouse=True)
def ray_cluster():
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def settings(**changes: Any) -> dict[str, Any]:
    """The config of KILLED_RUN as a dictionary."""
    return {
        "env": "EZPoints",
        "model_path": MODEL,
        "max_prompt_tokens": 160,
        "max_response_tokens": 32,
        "group_size": 4,
        "groups_per_iteration": 2,
        "lr": 1e-3,
        "num_env_runners": 0,
        "num_learners": 0,
        "seed": 0,
        **changes,
    }


def fit(trainable: Any, param_space: Any, folder: Path, **run_settings: Any) -> tune.Result:
    """The result of the only trial."""
    run_config = tune.RunConfig(
        storage_path=str(folder), stop={"training_iteration": ITERATIONS}, verbose=0, **run_settings
    )
    (result,) = tune.Tuner(trainable, param_space=param_space, run_config=run_config).fit()
    assert result.error is None
    return result


def weights_of(result: tune.Result) -> dict[str, np.ndarray]:
    (file,) = Path(result.checkpoint.path).glob("learner_group/learner/rl_module/*/huggingface/model.safetensors")
    return load_file(file)


def task_cursor_of(result: tune.Result) -> int:
    algo = GiGPO.from_checkpoint(result.checkpoint.path)
    cursor = algo.get_state()["task_cursor"]
    algo.stop()
    return cursor


def is_written_down(run: Path, *, since: Path) -> bool:
    """Whether Tune, which copies its state into the run's folder every two seconds, has done so since a file was made,
    and is not at it: a kill -9 would leave empty files, which Ray takes for a run that has not begun."""
    written = [path.stat().st_mtime for path in run.glob("*.json")]
    if not (since.exists() and written):
        return False
    return min(written) > since.stat().st_mtime and max(written) < time.time() - 0.4


def assert_equal(result: tune.Result, expected: tune.Result) -> None:
    assert result.metrics["training_iteration"] == expected.metrics["training_iteration"] == ITERATIONS
    for key in ("success_rate", "episode_return_mean", "response_tokens_mean"):
        assert result.metrics["env_runners"][key] == expected.metrics["env_runners"][key]
    ours, theirs = weights_of(result), weights_of(expected)
    assert ours.keys() == theirs.keys()
    # Tune gives every trial one thread; what differs then is nothing.
    assert max(float(np.abs(ours[name] - theirs[name]).max()) for name in ours) <= 1e-6


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> tune.Result:
    """By class, with a dictionary."""
    return fit(GiGPO, settings(), tmp_path_factory.mktemp("uninterrupted"))


def test_a_run_that_is_killed_and_restored_equals_the_uninterrupted_one(
    uninterrupted: tune.Result, tmp_path: Path
) -> None:
    (tmp_path / "hang").touch()
    script = tmp_path / "killed_run.py"
    script.write_text(KILLED_RUN.format(folder=str(tmp_path)))
    # Every ten seconds would be too seldom to wait for.
    environment = os.environ | {"TUNE_GLOBAL_CHECKPOINT_S": "2"}
    # A session of its own, so that its Ray can be killed with it.
    process = subprocess.Popen([sys.executable, script], start_new_session=True, env=environment)
    try:
        deadline = time.monotonic() + 120
        while not is_written_down(tmp_path / "run", since=tmp_path / "hanging"):
            assert process.poll() is None, "the run ended before it could be killed"
            assert time.monotonic() < deadline, f"the run did not come to iteration {KILLED_IN}"
            time.sleep(0.05)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    (tmp_path / "hang").unlink()

    (restored,) = tune.Tuner.restore(str(tmp_path / "run"), trainable="GiGPO").fit()
    assert restored.error is None
    # From the checkpoint, not from the beginning.
    assert restored.metrics["iterations_since_restore"] < ITERATIONS
    assert_equal(restored, uninterrupted)
    assert task_cursor_of(restored) == task_cursor_of(uninterrupted) == ITERATIONS * 2


class DiesBeforeTheStateIsWritten(tune.Callback):
    """Ends the driver once: when Tune has saved the checkpoint of iteration KILLED_IN and removed the one before it,
    and has not written down yet that it did."""

    def __init__(self, marker: Path):
        self._marker = marker

    def on_trial_save(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        if trial.last_result["training_iteration"] == KILLED_IN and not self._marker.exists():
            self._marker.touch()
            raise KeyError("killed")


def test_a_run_whose_state_names_a_removed_checkpoint_goes_on_from_the_newer_one(
    uninterrupted: tune.Result, tmp_path: Path
) -> None:
    run_config = tune.RunConfig(
        name="run",
        storage_path=str(tmp_path),
        stop={"training_iteration": ITERATIONS},
        checkpoint_config=tune.CheckpointConfig(checkpoint_frequency=1, num_to_keep=1),
        callbacks=[DiesBeforeTheStateIsWritten(tmp_path / "died")],
        verbose=0,
    )
    with pytest.raises(tune.TuneError, match="killed"):
        tune.Tuner(GiGPO, param_space=settings(), run_config=run_config).fit()

    def kept() -> list[str]:
        return sorted(path.name for path in tmp_path.glob("run/*/checkpoint_*"))

    (state,) = (tmp_path / "run").glob("experiment_state-*.json")
    assert kept() == ["checkpoint_000002"]
    assert "checkpoint_000002" not in state.read_text()
    (restored,) = tune.Tuner.restore(str(tmp_path / "run"), trainable=GiGPO).fit()
    assert restored.error is None
    assert restored.metrics["iterations_since_restore"] == ITERATIONS - KILLED_IN
    assert_equal(restored, uninterrupted)
    # Tune knows of all that there is.
    assert kept() == [Path(restored.checkpoint.path).name]


def test_a_trial_that_fails_is_continued_from_its_checkpoint(uninterrupted: tune.Result, tmp_path: Path) -> None:
    def fail_once(algorithm: Any, result: dict[str, Any], **_: Any) -> None:
        if result["training_iteration"] == KILLED_IN and not (tmp_path / "failed").exists():
            (tmp_path / "failed").touch()
            raise OSError("the machine went away")

    config = GiGPOConfig().update_from_dict(settings()).callbacks(on_train_result=fail_once)
    result = fit(
        "GiGPO",
        config,
        tmp_path,
        checkpoint_config=tune.CheckpointConfig(checkpoint_frequency=1),
        failure_config=tune.FailureConfig(max_failures=1),
    )
    assert (tmp_path / "failed").exists()
    assert result.metrics["iterations_since_restore"] < ITERATIONS
    assert_equal(result, uninterrupted)


def test_a_trial_logs_to_tensorboard_csv_and_json(uninterrupted: tune.Result) -> None:
    path = Path(uninterrupted.path)
    assert list(path.glob("events.out.tfevents.*"))
    assert len((path / "progress.csv").read_text().splitlines()) == ITERATIONS + 1
    results = [json.loads(line) for line in (path / "result.json").read_text().splitlines()]
    assert [result["training_iteration"] for result in results] == [1, 2, 3, 4]
