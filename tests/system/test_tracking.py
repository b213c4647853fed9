"""A training that logs to W&B, offline, and to MLflow's file store; skipped where they are not installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]

OFFLINE = {"WANDB_MODE": "offline", "MLFLOW_ALLOW_FILE_STORE": "true", "WANDB_SILENT": "true"}


def train(folder: Path, *options: str) -> str:
    """One iteration of a tiny training; what it printed."""
    file = folder / "tiny.py"
    file.write_text(
        """
from rllib_gigpo.algorithms.gigpo import GiGPOConfig
from rllib_gigpo.env_adapters import embedded_model_path

config = (
    GiGPOConfig()
    .environment("EZPoints")
    .language_model(model_path=str(embedded_model_path("EZPoints")))
    .generation(max_prompt_tokens=160, max_response_tokens=32)
    .training(group_size=4, groups_per_iteration=2)
    .env_runners(num_env_runners=0)
    .learners(num_learners=0)
)
stop = {"training_iteration": 1}
"""
    )
    arguments = ["train", "file", str(file), "--storage-path", str(folder / "runs"), *options]
    command = [sys.executable, "-c", "from rllib_gigpo.cli.main import app; app()", *arguments]
    environment = os.environ | OFFLINE | {"WANDB_DIR": str(folder)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_a_run_is_written_for_weights_and_biases(tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    train(tmp_path, "--wandb-project", "tiny")
    assert list(tmp_path.rglob("offline-run-*/*.wandb"))


def test_a_run_is_written_for_mlflow(tmp_path: Path) -> None:
    pytest.importorskip("mlflow")
    train(tmp_path, "--mlflow-experiment", "tiny", "--mlflow-uri", f"file://{tmp_path}/mlruns")
    assert list(tmp_path.glob("mlruns/*/*/metrics/env_runners/success_rate"))
