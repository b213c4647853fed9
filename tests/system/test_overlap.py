"""Sampling of an iteration during the update of the one before: really at once, one version old, nothing lost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
import ray

from rllib_gigpo.algorithms.gigpo.gigpo import GiGPO
from rllib_gigpo.columns import GROUP_ID
from rllib_gigpo.env_adapters import make_env
from tests.algorithm_cases import KillsItsProcess, small_config

pytestmark = pytest.mark.system


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline, f"{path.name} never came"
        time.sleep(0.01)


class StartsDuringTheUpdate(gym.Wrapper):
    """EZPoints that, once "armed" lies in `env_config["folder"]`, waits at its start for "updating" to come, and then
    says "sampling"."""

    def __init__(self, config: Any):
        super().__init__(make_env("EZPoints"))
        self.folder = Path(config["folder"])

    def reset(self, **kwargs: Any) -> Any:
        if (self.folder / "armed").exists():
            wait_for(self.folder / "updating")
            (self.folder / "sampling").touch()
        return super().reset(**kwargs)


def overlapped(env: type, **env_config: str) -> Any:
    return (
        small_config(group_size=2, groups_per_iteration=2, num_minibatches=1, lr=1e-5)
        .environment(env, env_config=env_config, tasks=list(range(7)))
        .generation(max_response_tokens=8)
        .env_runners(num_env_runners=1, max_weight_lag=1)
    )


def record_groups(algo: Any) -> list[list[int]]:
    """Ids of the groups that each iteration learns from, from now on."""
    groups: list[list[int]] = []
    assign = algo._assign_credit

    def recording(episodes: list) -> Any:
        groups.append(sorted({episode.get_infos(0)[GROUP_ID] for episode in episodes}))
        return assign(episodes)

    algo._assign_credit = recording
    return groups


def before_second_start(algo: Any, act: Callable[[], None]) -> None:
    """Has `act` called before the rollout that begins during the first update; the first one is of that iteration."""
    start_next, starts = algo._overlap.start_next, []

    def start() -> None:
        starts.append(True)
        if len(starts) == 2:
            act()
        start_next()

    algo._overlap.start_next = start


def lag_of(result: dict) -> float:
    """The lag of a batch; without one the sampler's policy is the learner's, with one it must not be."""
    update = result["learners"]["default_policy"]
    lag = update["weights_version_lag_mean"]
    if update["rows_in_loss_share"] > 0:
        assert (update["sampler_learner_gap_mean"] > 1e-4) == (lag > 0)
    return lag


def test_groups_are_sampled_during_the_update_before_and_sampled_again_after_a_restore(tmp_path: Path) -> None:
    config = overlapped(StartsDuringTheUpdate, folder=str(tmp_path))
    algo = config.build_algo()
    groups = record_groups(algo)
    before_second_start(algo, (tmp_path / "armed").touch)
    update = algo._update

    def update_during_a_rollout(rows: Any) -> None:
        (tmp_path / "updating").touch()
        wait_for(tmp_path / "sampling")
        update(rows)

    algo._update = update_during_a_rollout
    first = algo.train()
    # The first groups can only be of the weights that the update starts from.
    assert lag_of(first) == 0
    algo._update = update

    second = algo.train()
    assert lag_of(second) == 1
    assert second["env_runners"]["weights_seq_no"] == 0
    assert second["overlap"]["resampled_groups"] == 0
    assert algo.evaluate()["env_runners"]["panel_size"] == 8
    path = algo.save_to_path(tmp_path / "checkpoint")
    steps = second["num_env_steps_sampled_lifetime"]
    assert lag_of(algo.train()) == 1
    # Back in place: what had been sampled ahead since is dropped as well.
    algo.restore_from_path(path)
    again = algo.train()
    assert groups == [[0, 1], [2, 3], [4, 5], [4, 5]]
    assert again["overlap"]["resampled_groups"] == 2
    assert lag_of(again) == 0
    assert lag_of(algo.train()) == 1
    algo.stop()

    # In a new process, without overlap.
    synchronous = GiGPO.from_checkpoint(path, config=config.copy(copy_frozen=False).env_runners(max_weight_lag=0))
    groups = record_groups(synchronous)
    result = synchronous.train()
    assert groups == [[4, 5]]
    assert lag_of(result) == 0
    assert result["num_env_steps_sampled_lifetime"] > steps
    synchronous.stop()


def test_a_runner_that_dies_during_an_update_loses_its_groups_once_and_is_back(tmp_path: Path) -> None:
    order = tmp_path / "kill"
    algo = overlapped(KillsItsProcess, order=str(order)).build_algo()
    groups = record_groups(algo)
    before_second_start(algo, order.touch)
    algo.train()
    assert not order.exists()
    # Its groups are missed by the iteration that would have learned from them.
    lost = algo.train()["env_runners"]
    assert lost["rollout_failures"] == lost["dropped_groups"] == 2
    assert algo.train()["env_runners"]["rollout_failures"] == 0
    assert groups == [[0, 1], [4, 5]]

    # An iteration that ends in the middle leaves a rollout behind, which stopping does not wait for.
    def fail(rows: Any) -> None:
        raise ArithmeticError("of this test")

    algo._update = fail
    with pytest.raises(ArithmeticError):
        algo.train()
    algo.stop()
    assert algo._overlap._ahead[1].done()
