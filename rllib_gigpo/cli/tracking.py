"""Experiment trackers beside the files of a run: W&B and MLflow, through Tune's own callbacks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rllib_gigpo.installed import is_installed


@dataclass(frozen=True)
class Tracking:
    """Where results go, too.

    Attributes:
        wandb_project: Project of Weights & Biases; None is none. `wandb login`, or WANDB_MODE=offline, comes before.
        wandb_run_name: Name of the run there; None is the trial's.
        mlflow_experiment: Name of an experiment of MLflow; None is none.
        mlflow_uri: Of MLflow's server or store; None is MLFLOW_TRACKING_URI, or what MLflow takes without it.
    """

    wandb_project: str | None = None
    wandb_run_name: str | None = None
    mlflow_experiment: str | None = None
    mlflow_uri: str | None = None

    def __post_init__(self) -> None:
        """Raises ValueError where an option has nothing to act on, or a package is not installed."""
        if self.wandb_run_name is not None and self.wandb_project is None:
            raise ValueError("--wandb-run-name does nothing without --wandb-project")
        if self.mlflow_uri is not None and self.mlflow_experiment is None:
            raise ValueError("--mlflow-uri does nothing without --mlflow-experiment")
        for option, value, package in (
            ("--wandb-project", self.wandb_project, "wandb"),
            ("--mlflow-experiment", self.mlflow_experiment, "mlflow"),
        ):
            if value is not None and not is_installed(package):
                raise ValueError(f"{option} needs the package {package}: pip install {package}")

    def callbacks(self, group: str) -> list[Any]:
        """Tune's logger callbacks.

        Args:
            group: What W&B puts the trials of a run together by.
        """
        found: list[Any] = []
        if self.wandb_project is not None:
            from ray.air.integrations.wandb import WandbLoggerCallback

            name = {} if self.wandb_run_name is None else {"name": self.wandb_run_name}
            found.append(WandbLoggerCallback(project=self.wandb_project, group=group, **name))
        if self.mlflow_experiment is not None:
            from ray.air.integrations.mlflow import MLflowLoggerCallback

            found.append(MLflowLoggerCallback(self.mlflow_uri, experiment_name=self.mlflow_experiment))
        return found
