"""The files that Tune writes for a trial, for an Algorithm that is trained directly."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from ray.tune.logger import CSVLoggerCallback, JsonLoggerCallback, TBXLoggerCallback

from rllib_gigpo.report.trajectory_samples import TrajectorySamples


class RunLogs:
    """Writes results to TensorBoard, progress.csv and result.json by Tune's own logger callbacks, and trajectories to
    TensorBoard; a context manager.

    So the tags and the columns are those of `tune.Tuner`, and the tools that read its runs read these.
    """

    def __init__(self, run_dir: Path, config: Mapping[str, Any]) -> None:
        self._trial: Any = _Trial(run_dir, config)
        self._callbacks = (TBXLoggerCallback(), CSVLoggerCallback(), JsonLoggerCallback(), TrajectorySamples())

    def __enter__(self) -> RunLogs:
        for callback in self._callbacks:
            callback.log_trial_start(self._trial)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        for callback in self._callbacks:
            callback.log_trial_end(self._trial, failed=error is not None)

    def log(self, result: Mapping[str, Any]) -> None:
        """Adds a train result. Its copy of the whole config is left out: params.json has it, once."""
        numbers = {key: value for key, value in result.items() if key != "config"}
        for callback in self._callbacks:
            callback.log_trial_result(result["training_iteration"], self._trial, numbers)


class _Trial:
    """As much of a `ray.tune.experiment.Trial` as the logger callbacks look at."""

    def __init__(self, run_dir: Path, config: Mapping[str, Any]) -> None:
        self.local_path = str(run_dir)
        self.config = dict(config)
        self.evaluated_params: dict[str, Any] = {}
        self.checkpoint = None

    def init_local_path(self) -> None:
        Path(self.local_path).mkdir(parents=True, exist_ok=True)
