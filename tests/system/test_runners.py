"""Env runners in processes of their own: the same rollouts, losses that are counted, weights that are proved."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.rllib.core import DEFAULT_MODULE_ID

from rllib_gigpo.algorithms.group_policy.weight_delivery import deliver_weights
from rllib_gigpo.columns import WEIGHTS_VERSION
from rllib_gigpo.rl_modules.causal_lm_rl_module import CausalLMRLModule
from tests.algorithm_cases import KillsItsProcess, record_samples, small_config, tasks_of, tokens_of

pytestmark = pytest.mark.system

SHORT = {"max_response_tokens": 16}


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    # Two for the runners that all tests share, two for those of a test.
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def kill_order(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runners") / "kill"


def config_of(kill_order: Path, num_env_runners: int) -> Any:
    return (
        small_config(lr=1e-2)
        .environment(KillsItsProcess, env_config={"order": str(kill_order)})
        .generation(**SHORT)
        .env_runners(num_env_runners=num_env_runners)
    )


@pytest.fixture(scope="module")
def modules_on_the_driver() -> list[CausalLMRLModule]:
    return []


@pytest.fixture(scope="module")
def two_runners(kill_order: Path, modules_on_the_driver: list[CausalLMRLModule]) -> Iterator[Any]:
    """Each test below leaves it with both runners alive."""
    with pytest.MonkeyPatch.context() as patch:
        setup = CausalLMRLModule.setup
        patch.setattr(CausalLMRLModule, "setup", lambda self: modules_on_the_driver.append(self) or setup(self))
        algo = config_of(kill_order, 2).build_algo()
        algo.get_module_count = len(modules_on_the_driver)
        yield algo
    algo.stop()


def first_iteration(algo: Any) -> tuple[list, dict, list]:
    """Tasks and tokens of the first iteration, and the outcomes of an evaluation before it."""
    algo.evaluate()
    episodes = record_samples(algo)
    algo.train()
    return tasks_of(episodes), tokens_of(episodes), algo._last_panel.outcomes


def test_no_one_and_two_runners_play_the_same_tasks_and_sample_the_same_tokens(
    two_runners: Any, kill_order: Path
) -> None:
    results = [first_iteration(two_runners)]
    assert two_runners.env_runner_group.num_remote_env_runners() == 2
    assert two_runners.env_runner is None
    for num_env_runners in (0, 1):
        algo = config_of(kill_order, num_env_runners).build_algo()
        results.append(first_iteration(algo))
        algo.stop()
    assert len(results[0][1]) == 16
    assert results[0] == results[1] == results[2]


def test_dynamic_sampling_plays_and_keeps_the_same_groups_on_any_number_of_runners(kill_order: Path) -> None:
    results = []
    for num_env_runners in (0, 2):
        config = config_of(kill_order, num_env_runners).training(dynamic_sampling=True, invalid_action_penalty=0.0)
        algo = config.build_algo()
        kept: list = []
        assign = algo._assign_credit
        algo._assign_credit = lambda episodes, kept=kept, assign=assign: kept.extend(episodes) or assign(episodes)
        result = algo.train()
        counts = {name: result["rollout_groups"][name] for name in ("sampling_rounds", "sampled_groups", "num_groups")}
        lifetime = [result["env_runners"][f"num_{of}_lifetime"] for of in ("episodes", "env_steps_sampled")]
        results.append((tokens_of(kept), list(tokens_of(kept)), counts, lifetime, algo._task_cursor))
        algo.stop()
    assert results[0] == results[1]
    assert results[0][2]["sampling_rounds"] > 1
    assert results[0][3][0] == 4 * results[0][4]


def test_the_driver_builds_no_model_but_that_of_its_own_learner(
    two_runners: Any, modules_on_the_driver: list[CausalLMRLModule]
) -> None:
    assert two_runners.get_module_count == 1
    assert modules_on_the_driver[0] is two_runners.learner_group._learner.module["default_policy"]


def test_a_runner_that_is_killed_loses_its_groups_and_is_back_in_the_next_iteration(
    two_runners: Any, kill_order: Path
) -> None:
    episodes = record_samples(two_runners)
    kill_order.touch()
    lost = two_runners.train()["env_runners"]
    assert (lost["rollout_failures"], lost["dropped_groups"], lost["num_episodes"]) == (2, 2, 8)
    assert lost["endings"]["rollout_failure"] == lost["rollout_failure_causes"]["RunnerDied"] == 8
    assert sum(lost["endings"].values()) == 16
    assert len(tokens_of(episodes)) == 8
    episodes.clear()

    version = two_runners.learner_group.get_state()["learner"]["weights_seq_no"]
    whole = two_runners.train()
    assert whole["fault_tolerance"]["num_healthy_workers"] == 2
    assert whole["fault_tolerance"]["num_remote_worker_restarts"] == 1
    assert whole["env_runners"]["rollout_failures"] == 0
    assert whole["env_runners"]["num_episodes"] == 16
    # A new process starts from version 0, the model directory.
    assert version >= 1
    assert {v for e in episodes for v in e.get_extra_model_outputs(WEIGHTS_VERSION)} == {version}
    assert whole["learners"]["default_policy"]["weights_version_lag_mean"] == 0
    assert whole["learners"]["default_policy"]["sampler_learner_gap_max"] <= 1e-4


def test_an_error_while_sampling_reaches_the_driver_with_its_cause(
    two_runners: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_sampling(runner: Any) -> None:
        def run(plan: Any) -> None:
            raise FloatingPointError("logits are NaN")

        runner._rollout.run = run

    group = two_runners.env_runner_group
    group.foreach_env_runner(break_sampling, remote_worker_ids=[1], local_env_runner=False)
    plan = two_runners._next_plan()
    rollout = two_runners._runners.roll_out(plan)
    assert len(rollout.episodes) == 8
    assert rollout.counts["rollout_failure_causes/FloatingPointError"] == 8
    # It is restarted like one that died: nobody knows what state the error has left.
    assert group.healthy_env_runner_ids() == [2]
    assert two_runners.restore_env_runners(group) == [1]

    group.foreach_env_runner(break_sampling, local_env_runner=False)
    with pytest.raises(RuntimeError, match=r"(?s)all 2 env runners .*in run\n.*FloatingPointError: logits are NaN"):
        two_runners._runners.roll_out(plan)


def test_without_any_runner_there_is_one_error_with_the_last_cause(two_runners: Any) -> None:
    manager = two_runners.env_runner_group._worker_manager
    for runner_id in (1, 2):
        manager.set_actor_state(runner_id, healthy=False)
    with pytest.raises(RuntimeError, match=r"(?s)none of the 2 env runners is alive; .*FloatingPointError"):
        two_runners._runners.roll_out(two_runners._next_plan())
    for runner_id in (1, 2):
        manager.set_actor_state(runner_id, healthy=True)


def test_a_runner_that_serves_other_weights_is_named(two_runners: Any) -> None:
    def skip_weights(runner: Any) -> None:
        runner.engine.deliver = lambda weights, version: None

    group = two_runners.env_runner_group
    group.foreach_env_runner(skip_weights, remote_worker_ids=[2], local_env_runner=False)
    version = two_runners.learner_group._learner._weights_seq_no
    two_runners.learner_group._learner._weights_seq_no += 1
    with pytest.raises(
        RuntimeError, match=rf"version {version + 1} was delivered, but env runner 2 serves version {version} with"
    ):
        two_runners.deliver_weights()


def test_a_runner_that_does_not_take_weights_in_time_is_named(two_runners: Any) -> None:
    def hang(runner: Any) -> None:
        runner.engine.deliver = lambda weights, version: time.sleep(8)

    two_runners.env_runner_group.foreach_env_runner(hang, remote_worker_ids=[2], local_env_runner=False)
    with pytest.raises(RuntimeError, match=r"was delivered, but env runner 2 did not answer within 4 s$"):
        deliver_weights(
            two_runners.learner_group, two_runners._runners, model_dtypes={DEFAULT_MODULE_ID: "float32"}, timeout_s=4
        )


def test_a_runner_that_cannot_start_is_reported_with_its_cause(kill_order: Path) -> None:
    config = config_of(kill_order, 1).environment(env_config={"order": 7})
    with pytest.raises(RuntimeError, match=r"(?s)1 of 1 env runners did not start; .*TypeError"):
        config.build_algo()


def test_more_than_the_cluster_has_is_refused_with_what_there_is(kill_order: Path) -> None:
    config = config_of(kill_order, 2).learners(num_learners=2, num_gpus_per_learner=1)
    with pytest.raises(ValueError, match=r"ask for 2 CPU, 2 GPU, but the cluster has 4 CPU, 0 GPU: not enough GPU"):
        config.build_algo()
