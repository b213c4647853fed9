"""W&B and MLflow, as options; what they write is tested where they are installed (tests/system/test_tracking.py)."""

from __future__ import annotations

from pathlib import Path

import pytest

from rllib_gigpo.algorithms.gigpo import GiGPOConfig
from rllib_gigpo.cli import tracking
from rllib_gigpo.cli.experiment import Experiment
from rllib_gigpo.cli.tracking import Tracking
from rllib_gigpo.cli.train_options import TrainOptions
from rllib_gigpo.installed import is_installed

pytestmark = pytest.mark.unit


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if both packages were there."""
    monkeypatch.setattr(tracking, "is_installed", lambda package: True)


@pytest.mark.usefixtures("installed")
def test_tracking_takes_tune() -> None:
    experiment = Experiment("name", GiGPOConfig().environment("EZPoints"), {"training_iteration": 1.0})
    changed = TrainOptions(wandb_project="p", wandb_run_name="n", mlflow_experiment="e", mlflow_uri="u").applied_to(
        experiment
    )
    assert changed.tracking == Tracking("p", "n", "e", "u")
    assert changed.needs_tune()
    assert not TrainOptions().applied_to(experiment).needs_tune()


@pytest.mark.parametrize(
    ("options", "package"), [({"wandb_project": "p"}, "wandb"), ({"mlflow_experiment": "e"}, "mlflow")]
)
def test_a_package_that_is_not_installed_is_named(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, str], package: str
) -> None:
    monkeypatch.setattr(tracking, "is_installed", lambda name: False)
    with pytest.raises(ValueError, match=f"needs the package {package}: pip install {package}"):
        Tracking(**options)


def test_a_folder_without_a_package_in_it_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("a_folder", "a_package"):
        (tmp_path / name).mkdir()
    (tmp_path / "a_package" / "__init__.py").touch()
    assert [is_installed(name) for name in ("a_folder", "a_package", "nothing")] == [False, True, False]


def test_without_options_there_is_no_callback() -> None:
    assert Tracking().callbacks("run") == []
