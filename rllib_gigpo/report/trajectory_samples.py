"""Some recorded trajectories in TensorBoard: what was shown, answered and done, with its credit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image
from ray.tune.logger import LoggerCallback
from tensorboardX import SummaryWriter

from rllib_gigpo.report.record_files import RECORDS_FOLDER, read_records, record_file
from rllib_gigpo.report.recorded_images import IMAGES_FOLDER

if TYPE_CHECKING:
    from ray.tune.experiment import Trial

MAX_STEPS = 12
MAX_CHARACTERS = 1000  # of an observation or a response
MAX_IMAGES = 4


class TrajectorySamples(LoggerCallback):
    """Writes the best and the worst recorded trajectory of the first group to TensorBoard, for the first iteration and
    every `every`th; of each no more than `MAX_STEPS` steps, and `MAX_IMAGES` pictures where there are any.

        tune.RunConfig(callbacks=[TrajectorySamples()])

    `rllib train` has it. The tags are `trajectories/best`, `trajectories/worst` and `observations/best`, `…/worst`.
    """

    def __init__(self, *, every: int = 10) -> None:
        """Raises ValueError where `every` is below 1."""
        if every < 1:
            raise ValueError(f"every={every} must be 1 at least")
        self._every = every
        self._writers: dict[str, SummaryWriter] = {}

    def log_trial_result(self, iteration: int, trial: Trial, result: dict[str, Any]) -> None:
        number = result["training_iteration"]
        if number != 1 and number % self._every:
            return
        folder = _trial_folder(trial) / RECORDS_FOLDER
        path = record_file(folder, number)
        if not path.is_file():
            return
        records = read_records(path)
        group = [record for record in records if record["group_id"] == records[0]["group_id"] and record["steps"]]
        if not group:
            return
        writer = self._writer(trial)
        for name, choose in (("best", max), ("worst", min)):
            record = choose(group, key=lambda record: record["return"])
            writer.add_text(f"trajectories/{name}", trajectory_text(record), number)
            if (pictures := _pictures(record["steps"], folder / IMAGES_FOLDER)) is not None:
                writer.add_image(f"observations/{name}", pictures, number, dataformats="HWC")
        writer.flush()

    def log_trial_end(self, trial: Trial, failed: bool = False) -> None:
        if (writer := self._writers.pop(trial.local_path, None)) is not None:
            writer.close()

    def _writer(self, trial: Trial) -> SummaryWriter:
        if trial.local_path not in self._writers:
            trial.init_local_path()
            self._writers[trial.local_path] = SummaryWriter(trial.local_path, filename_suffix=".trajectories")
        return self._writers[trial.local_path]


def trajectory_text(record: Mapping[str, Any]) -> str:
    """A recorded trajectory as Markdown, in which texts of environments and models are code."""
    steps: Sequence[Mapping[str, Any]] = record["steps"]
    head = f"group {record['group_id']}, member {record['member']}: {record['ending']}, return {record['return']:g}"
    parts = [f"**{head}, {len(steps)} steps**"]
    for number, step in enumerate(steps[:MAX_STEPS]):
        invalid = "" if step["invalid_reason"] is None else f", invalid: {step['invalid_reason']}"
        parts.append(f"step {number}, reward {step['reward']:g}, advantage {step['advantage']:.3g}{invalid}")
        parts += [_code(step["observation"]), _code(step["response"])]
    if len(steps) > MAX_STEPS:
        parts.append(f"… and {len(steps) - MAX_STEPS} steps more")
    return "\n\n".join(parts)


def _code(text: str) -> str:
    shown = text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}…"
    return "\n".join(f"    {line}" for line in shown.splitlines() or [""])


def _pictures(steps: Sequence[Mapping[str, Any]], folder: Path) -> np.ndarray | None:
    """The first pictures side by side, uint8[H, W, 3]; None where there are none."""
    files = [folder / f"{step['image']}.png" for step in steps if "image" in step][:MAX_IMAGES]
    pictures = [np.asarray(Image.open(file).convert("RGB")) for file in files if file.is_file()]
    if not pictures:
        return None
    height = max(picture.shape[0] for picture in pictures)
    padded = [np.pad(picture, ((0, height - picture.shape[0]), (0, 4), (0, 0))) for picture in pictures]
    return np.concatenate(padded, axis=1)


def _trial_folder(trial: Trial) -> Path:
    """Where the trial's algorithm writes."""
    storage = getattr(trial, "storage", None)
    return Path(trial.local_path if storage is None else storage.trial_fs_path)
