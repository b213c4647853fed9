"""What the command trains: one experiment, from whichever of its three forms it was read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rllib_gigpo.cli.tracking import Tracking

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

DEFAULT_STORAGE_PATH = Path("runs")
DEFAULT_METRIC = "env_runners/success_rate"


@dataclass(frozen=True)
class Checkpoints:
    """When a run saves checkpoints, and which of them it keeps.

    Attributes:
        frequency: Training iterations between two; 0 is only at the end.
        at_end: Whether there is one at the end.
        num_to_keep: The best of them by `score_attribute`, or the latest; None keeps all.
        score_attribute: Result key, like "env_runners/success_rate".
        score_order: Whether the largest or the smallest score is the best.
        best_by: Result key by which a run without Tune keeps its best checkpoint beside the latest ones.
        best_order: Whether the largest or the smallest is the best.
    """

    frequency: int = 0
    at_end: bool = True
    num_to_keep: int | None = None
    score_attribute: str | None = None
    score_order: Literal["max", "min"] = "max"
    best_by: str | None = None
    best_order: Literal["max", "min"] = "max"

    def need_tune(self) -> bool:
        """Whether a run in the command's own process cannot do this."""
        if self.best_by is None:
            return self != Checkpoints()
        return not self.at_end or self.score_attribute is not None


@dataclass(frozen=True)
class Experiment:
    """A config and how to run it.

    Attributes:
        name: The run's folder is named after it.
        config: May hold search spaces.
        stop: Result key ("training_iteration", "env_runners/success_rate", …) to the value at which training stops.
        num_samples: Trials per point of the grid.
        checkpoints: When to save.
        storage_path: Folder of the run's folder.
        restore: Checkpoint to start from.
        max_failures: How often a failed trial is continued from its latest checkpoint; -1 is always.
        scheduler: Name of one of Tune's schedulers.
        scheduler_config: Its arguments.
        metric: Result key by which trials are compared.
        mode: Whether the largest or the smallest value of the metric is the best.
        tracking: W&B and MLflow.
    """

    name: str
    config: AlgorithmConfig
    stop: Mapping[str, float]
    num_samples: int = 1
    checkpoints: Checkpoints = field(default_factory=Checkpoints)
    storage_path: Path = DEFAULT_STORAGE_PATH
    restore: Path | None = None
    max_failures: int = 0
    scheduler: str = "FIFO"
    scheduler_config: Mapping[str, Any] = field(default_factory=dict)
    metric: str = DEFAULT_METRIC
    mode: Literal["max", "min"] = "max"
    tracking: Tracking = field(default_factory=Tracking)

    def needs_tune(self) -> bool:
        """Whether anything is asked for that takes Tune: several trials, or checkpoints and retries during the run."""
        from rllib_gigpo.cli.search_space import has_search_space

        return (
            self.num_samples > 1
            or self.checkpoints.need_tune()
            or self.max_failures != 0
            or self.tracking != Tracking()
            or self.scheduler.lower() != "fifo"
            or has_search_space(self.config)
        )
