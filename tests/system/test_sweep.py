"""A sweep as the command runs it, killed with -9 and resumed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

# Processes that import Ray and torch, one after the other: minutes on a busy machine.
pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]

CONFIG = {
    "model_path": "embedded",
    "max_prompt_tokens": 160,
    "max_response_tokens": 32,
    "group_size": 4,
    "groups_per_iteration": 2,
    "evaluation_duration": 2,
    "num_env_runners": 0,
    "num_learners": 0,
    "seed": 0,
}
RLLIB = [sys.executable, "-c", "from rllib_gigpo.cli.main import app; app()"]
# Tune would otherwise write down what it has done only every ten seconds, and repeat the rest.
ENVIRONMENT = os.environ | {"TUNE_GLOBAL_CHECKPOINT_S": "0"}


def sweep_file(folder: Path, *, iterations: int, **searched: object) -> Path:
    path = folder / "sweep.yaml"
    spec = {"run": "GiGPO", "env": "EZPoints", "stop": {"training_iteration": iterations}, "config": CONFIG | searched}
    path.write_text(yaml.safe_dump({"sweep": spec}))
    return path


def results(folder: Path) -> dict[str, list[int]]:
    """The iterations in each trial's results, in their order."""
    return {
        path.parent.name: [json.loads(line)["training_iteration"] for line in path.read_text().splitlines()]
        for path in folder.glob("sweep-*/*/result.json")
    }


def test_a_sweep_that_was_killed_is_resumed_and_names_its_best_trial(tmp_path: Path) -> None:
    file = sweep_file(tmp_path, iterations=2, lr={"grid_search": [1e-3, 1e-4, 1e-5]})
    # One trial after the other.
    options = ["--storage-path", str(tmp_path), "--checkpoint-freq", "1", "--ray-num-cpus", "1"]
    command = [*RLLIB, "train", "file", str(file), *options]
    # A session of its own, so that its Ray can be killed with it.
    process = subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        deadline = time.monotonic() + 200
        # Once a second trial has results, Tune has written down that the first one has ended.
        while sum(path.stat().st_size > 0 for path in tmp_path.glob("sweep-*/*/result.json")) < 2:
            assert process.poll() is None, "the sweep ended before it could be killed"
            assert time.monotonic() < deadline, "no second trial began"
            time.sleep(0.2)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    ended = min(tmp_path.glob("sweep-*/*/result.json"))  # trials are numbered as they begin
    # What a process leaves that is killed while Tune copies state and logs over the last ones.
    (state,) = tmp_path.glob("sweep-*/experiment_state-*.json")
    state.write_bytes(state.read_bytes()[:1000])
    ended.write_bytes(b"")

    done = subprocess.run([*command, "--resume"], env=ENVIRONMENT, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr[-2000:]
    trials = results(tmp_path)
    assert len(trials) == 3
    assert all(iterations[-1] == 2 for iterations in trials.values())
    # What had ended was not repeated.
    assert trials[ended.parent.name] == [1, 2]
    sweep = json.loads(Path(done.stdout.splitlines()[-1]).read_text())
    scores = {trial["trial"]: trial["score"] for trial in sweep["trials"]}
    assert scores.keys() == trials.keys()
    assert scores[sweep["best"]] == max(scores.values())
    assert f"best by env_runners/success_rate: {sweep['best']}" in done.stdout
