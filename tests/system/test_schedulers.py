"""Tune's schedulers with trials of ours: PBT exchanges checkpoints, ASHA ends the trial that lags behind."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
import ray
from ray import tune
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

from tests.algorithm_cases import small_config, weights_of

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]

GOOD_LR, BAD_LR = 1e-3, 1e-5


@pytest.fixture(scope="module", autouse=True)
def ray_cluster():
    """With one CPU: one trial after the other, in the order in which they were made."""
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def digest(algorithm: Any) -> str:
    """Of the weights of the learner."""
    state = hashlib.blake2b(digest_size=8)
    for name, array in sorted(weights_of(algorithm).items()):
        state.update(name.encode() + array.tobytes())
    return state.hexdigest()


def sweep_config(diary: Path) -> AlgorithmConfig:
    """Two trials, of which the first is better by definition. What happens in them is written to `diary`."""

    def write(event: str, algorithm: Any) -> None:
        optimizer = algorithm.learner_group._learner.get_optimizer()
        entry = {
            "event": event,
            # RLlib knows neither name nor id of its trial.
            "trial": Path(algorithm.logdir).name,
            "process": os.getpid(),
            "weights": digest(algorithm),
            "lr": algorithm.config.lr,
            "optimizer lr": optimizer.param_groups[0]["lr"],
        }
        with diary.open("a") as file:
            file.write(json.dumps(entry) + "\n")

    def on_train_result(algorithm: Any, result: dict[str, Any], **_: Any) -> None:
        result["fitness"] = algorithm.config.lr
        write("trained", algorithm)

    def on_checkpoint_loaded(algorithm: Any, **_: Any) -> None:
        write("loaded", algorithm)

    config = small_config(lr=tune.grid_search([GOOD_LR, BAD_LR]), groups_per_iteration=1, group_size=2)
    # The entropy has a gradient in every batch, also where all members of a group did equally well.
    config.training(train_on_zero_signal_groups=True, entropy_coeff=0.01).generation(max_response_tokens=8)
    return config.callbacks(on_train_result=on_train_result, on_checkpoint_loaded=on_checkpoint_loaded)


def fit(folder: Path, scheduler: Any, iterations: int) -> list[tune.Result]:
    """The results of the two trials, the better one first."""
    results = tune.Tuner(
        "GiGPO",
        param_space=sweep_config(folder / "diary.jsonl"),
        tune_config=tune.TuneConfig(metric="fitness", mode="max", scheduler=scheduler, reuse_actors=True),
        run_config=tune.RunConfig(storage_path=str(folder), stop={"training_iteration": iterations}, verbose=0),
    ).fit()
    assert not results.errors
    return list(results)


def test_a_population_exchanges_weights_and_changes_the_config_with_them(tmp_path: Path) -> None:
    scheduler = tune.schedulers.PopulationBasedTraining(
        time_attr="training_iteration",
        perturbation_interval=1,
        hyperparam_mutations={"lr": tune.uniform(BAD_LR, 1.0)},
        quantile_fraction=0.5,
        resample_probability=0.0,  # the other's learning rate times 1.2 or 0.8, not a new one
        synch=True,
    )
    good, bad = fit(tmp_path, scheduler, iterations=2)
    diary = [json.loads(line) for line in (tmp_path / "diary.jsonl").read_text().splitlines()]
    of_good, of_bad = ([entry for entry in diary if entry["trial"] == Path(result.path).name] for result in (good, bad))
    # Fewer processes than starts: one plays several trials.
    assert len({entry["process"] for entry in diary}) < 4
    assert [entry["event"] for entry in of_good] == ["trained", "loaded", "trained"]
    assert [entry["event"] for entry in of_bad] == ["trained", "loaded", "trained"]

    assert of_bad[0]["weights"] != of_good[0]["weights"]
    assert of_bad[1]["weights"] == of_good[0]["weights"], "the checkpoint was not taken over"
    # With a learning rate that it neither had before nor took over, and that the optimizer follows.
    assert of_bad[0]["lr"] == BAD_LR
    assert any(of_bad[1]["lr"] == pytest.approx(GOOD_LR * factor) for factor in (0.8, 1.2))
    assert of_bad[2]["optimizer lr"] == pytest.approx(of_bad[1]["lr"])
    assert of_bad[2]["weights"] not in {of_bad[1]["weights"], of_good[2]["weights"]}
    # The better one went on with what it had.
    assert of_good[1]["weights"] == of_good[0]["weights"]
    assert of_good[2]["lr"] == GOOD_LR


def test_asynchronous_halving_ends_the_trial_that_lags_behind(tmp_path: Path) -> None:
    scheduler = tune.schedulers.ASHAScheduler(grace_period=1, max_t=2, reduction_factor=2)
    good, bad = fit(tmp_path, scheduler, iterations=2)
    assert good.metrics["training_iteration"] == 2
    assert bad.metrics["training_iteration"] == 1
