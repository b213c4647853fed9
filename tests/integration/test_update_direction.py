"""One optimizer step makes good responses more likely and bad ones less, whatever the ratio is of."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.learner_cases import batch_of, build_learner_group, random_rows
from tests.tiny_models import save_tiny_model

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def model_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("model"))


@pytest.mark.parametrize(
    "settings",
    [
        {"ratio": "token", "loss_aggregation": "token-mean"},
        {"ratio": "token", "loss_aggregation": "token-mean", "clip_high": 0.28, "dual_clip": 3.0},
        {"ratio": "sequence", "loss_aggregation": "sequence-mean-token-mean", "clip_low": 0.02, "clip_high": 0.02},
        # Two steps: the second one's ratio is no longer 1.
        {"ratio": "sequence", "loss_aggregation": "sequence-mean-token-mean", "num_epochs": 2, "lr": 0.05},
    ],
    ids=["token", "token, decoupled and dual clip", "sequence", "sequence, two steps"],
)
def test_a_step_follows_the_sign_of_the_advantages(model_directory: Path, settings: dict[str, Any]) -> None:
    rows = replace(random_rows(24), advantages=np.tile(np.array([1, -1], np.float32), 12))
    group = build_learner_group(model_directory, **settings)
    learner: Any = group._learner
    before = learner.compute_log_probs(rows)
    group.update(batch=batch_of(rows), timesteps={})
    change = learner.compute_log_probs(rows) - before
    positive = np.repeat(rows.advantages > 0, rows.response_lengths)
    assert change[positive].mean() > 1e-3
    assert change[~positive].mean() < -1e-3
