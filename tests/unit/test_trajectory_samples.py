"""Recorded trajectories in TensorBoard."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from rllib_gigpo.report.trajectory_samples import MAX_STEPS, TrajectorySamples, trajectory_text

pytestmark = pytest.mark.unit


def record(member: int, total: float, **step: Any) -> dict[str, Any]:
    shown = {"observation": "a\n# room", "response": "<b>go</b>", "invalid_reason": None, "reward": 1.0}
    about = {"group_id": 4, "member": member, "ending": "won", "return": total}
    return {**about, "steps": [{**shown, "advantage": 0.5, **step}] * (MAX_STEPS + 2)}


def test_the_best_and_the_worst_of_a_group_are_written_at_intervals_and_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "trajectories"
    (folder / "images").mkdir(parents=True)
    Image.fromarray(np.zeros((20, 30, 3), np.uint8)).save(folder / "images" / "key.png")
    for iteration in (1, 2, 10):
        with gzip.open(folder / f"iteration_{iteration:06d}.jsonl.gz", "wt") as file:
            for one in (record(0, 1.0, image="key"), record(1, 3.0), record(2, 2.0)):
                file.write(json.dumps(one) + "\n")
    trial: Any = SimpleNamespace(local_path=str(tmp_path), init_local_path=lambda: None)
    samples = TrajectorySamples(every=10)
    for iteration in (1, 2, 10, 20):  # of the last one, nothing was recorded
        samples.log_trial_result(iteration, trial, {"training_iteration": iteration})
    samples.log_trial_end(trial)

    events = EventAccumulator(str(tmp_path)).Reload()
    best, worst = (f"trajectories/{name}/text_summary" for name in ("best", "worst"))
    assert set(events.Tags()["tensors"]) == {best, worst}
    assert [event.step for event in events.Tensors(best)] == [1, 10]
    assert "member 1" in events.Tensors(best)[0].tensor_proto.string_val[0].decode()
    assert "member 0" in events.Tensors(worst)[0].tensor_proto.string_val[0].decode()
    assert events.Tags()["images"] == ["observations/worst"]
    # Four of the same picture, side by side.
    assert events.Images("observations/worst")[0].width == 4 * 34


def test_what_is_shown_is_code_and_bounded() -> None:
    text = trajectory_text(record(0, 1.0, response="x" * 5000))
    assert "    # room" in text and "\n# room" not in text
    assert len(text) < MAX_STEPS * 1200
    assert text.endswith("… and 2 steps more")


def test_a_wrong_interval_is_named() -> None:
    with pytest.raises(ValueError, match="every=0 must be 1 at least"):
        TrajectorySamples(every=0)
