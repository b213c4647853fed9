"""Environments in worker processes: the same rollouts as in-line, and losses that stay where they happen."""

from __future__ import annotations

import errno
import subprocess
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rllib_gigpo.algorithms.gigpo.gigpo import GiGPOConfig
from rllib_gigpo.columns import GROUP_ID, MEMBER, RESPONSE_IDS, ROLLOUT_LOGP
from rllib_gigpo.env_adapters import embedded_model_path
from rllib_gigpo.env_runners.environment_pool import EnvironmentPool, InlinePool
from rllib_gigpo.env_runners.environment_worker import CreatorContext
from rllib_gigpo.env_runners.group_rollout import GroupRollout
from rllib_gigpo.env_runners.rollout_plan import GroupPlan, RolloutPlan
from rllib_gigpo.env_runners.worker_pool import WorkerLimits, WorkerPool
from rllib_gigpo.env_runners.worker_process import EnvironmentFailure
from rllib_gigpo.environments import environment_creator
from rllib_gigpo.inference.hf_engine import HFEngine
from rllib_gigpo.inference.protocol import SamplingParams
from rllib_gigpo.registry import make_environment
from rllib_gigpo.rl_modules.causal_lm_rl_module import CausalLMRLModule, causal_lm_spec
from tests.alfworld_cases import needs_alfworld
from tests.algorithm_cases import small_config
from tests.pool_cases import Trouble, heavy_modules, processes, running

pytestmark = pytest.mark.integration

MakePool = Callable[..., WorkerPool]


@pytest.fixture(scope="module")
def module() -> CausalLMRLModule:
    return causal_lm_spec(str(embedded_model_path("EZPoints"))).build()


@pytest.fixture
def make_pool(tmp_path: Path) -> Iterator[MakePool]:
    """Makes pools over 2 workers, and sees that none of their processes is left."""
    pools = []

    def make(create: Any = Trouble, *, num_envs: int = 8, limits: Any = None, **env_config: Any) -> WorkerPool:
        context = CreatorContext({"folder": str(tmp_path), **env_config}, worker_index=3, num_workers=5)
        limits = limits or WorkerLimits(step_timeout_s=60)
        pools.append(WorkerPool(create, context, num_envs, num_workers=2, limits=limits))
        return pools[-1]

    yield make
    for pool in pools:
        pool.close()
    assert running(processes(tmp_path)) == []


def rollout_of(
    module: CausalLMRLModule, pool: EnvironmentPool, env: str = "EZPoints", max_prompt_tokens: int = 160
) -> GroupRollout:
    config = GiGPOConfig().environment(env).generation(max_prompt_tokens=max_prompt_tokens)
    return GroupRollout(
        pool=pool,
        engine=HFEngine(module.lm, module.tokenizer),
        rl_module=module,
        env_to_module=config.build_env_to_module_connector(env=pool),
        module_to_env=config.build_module_to_env_connector(env=pool),
    )


def plan_of(num_groups: int) -> RolloutPlan:
    return RolloutPlan(
        tuple(GroupPlan(i, task=i, env_seed=i, sampling_seed=100 + i) for i in range(num_groups)),
        group_size=4,
        min_group_size=2,
        sampling=SamplingParams(max_response_tokens=16),
    )


def members_of(episodes: list) -> list[tuple[int, int]]:
    return [(e.get_infos(0)[GROUP_ID], e.get_infos(0)[MEMBER]) for e in episodes]


def test_zero_and_two_workers_roll_out_exactly_the_same(
    module: CausalLMRLModule, make_pool: MakePool, tmp_path: Path
) -> None:
    # Two groups at a time of five: which requests are sampled together must not depend on who is late.
    (tmp_path / "inline").mkdir()
    inline = InlinePool(lambda: Trouble({"folder": str(tmp_path / "inline"), "steps": 4, "ends_on": "="}), 8)
    batches: list[list[int]] = []

    def run(pool: EnvironmentPool) -> list:
        rollout = rollout_of(module, pool)
        engine: Any = rollout._engine
        sample = engine._gate._sample
        engine._gate._sample = lambda requests: batches[-1].append(len(requests)) or sample(requests)
        batches.append([])
        return rollout.run(plan_of(5))

    expected, found = run(inline), run(make_pool(steps=4, ends_on="=", delay_s=0.02))
    assert members_of(expected) == members_of(found) == [(group, member) for group in range(5) for member in range(4)]
    assert len({len(episode) for episode in expected}) > 1
    assert batches[0] == batches[1]
    for a, b in zip(expected, found, strict=True):
        assert a.get_observations() == b.get_observations()
        assert a.get_rewards() == b.get_rewards()
        for column in (RESPONSE_IDS, ROLLOUT_LOGP):
            for x, y in zip(a.get_extra_model_outputs(column), b.get_extra_model_outputs(column), strict=True):
                np.testing.assert_array_equal(x, y)
    assert len({e.get_infos(0)["pid"] for e in found}) == 2


@needs_alfworld
def test_alfworld_plays_the_same_in_workers(module: CausalLMRLModule) -> None:
    # data="": made-up games, whatever ALFWORLD_DATA names. The model is of another game and says nonsense.
    options = {"data": "", "num_receptacles": 4, "num_objects": 2, "max_steps": 2, "anchor_state": "game"}
    create = partial(make_environment, "ALFWorld")
    in_workers = WorkerPool(create, CreatorContext(options, 0, 0), 8, num_workers=2, limits=WorkerLimits())
    played = []
    for pool in (InlinePool(partial(create, options), 8), in_workers):
        rollout = rollout_of(module, pool, "ALFWorld", max_prompt_tokens=800)
        episodes = rollout.run(plan_of(2))
        assert rollout.take_counts()["endings/step_limit"] == len(episodes) == 8
        played.append([(episode.get_observations(), episode.get_infos()) for episode in episodes])
        pool.close()
    assert played[0] == played[1]


@pytest.mark.parametrize(
    ("trouble", "causes", "restarts"),
    [
        ("kill", {"WorkerDied": 2}, {"died": 1}),
        ("hang", {"StepTimeout": 1, "WorkerDied": 1}, {"timed_out": 1}),
        ("raise", {"ZeroDivisionError": 1}, {}),
        ("exit", {"SystemExit": 1}, {}),
        ("reset", {"ConnectionError": 1}, {}),
        ("construct", {"ConnectionError": 1}, {}),
    ],
)
def test_a_trouble_costs_only_the_trajectories_of_its_worker(
    module: CausalLMRLModule, make_pool: MakePool, tmp_path: Path, trouble: str, causes: dict, restarts: dict
) -> None:
    # Two of the group's four members live in each worker.
    pool = make_pool(num_envs=4, limits=WorkerLimits(step_timeout_s=3), steps=3)
    before = processes(tmp_path)
    (tmp_path / trouble).touch()
    rollout = rollout_of(module, pool)
    episodes = rollout.run(plan_of(1))
    counts = rollout.take_counts()
    lost = sum(causes.values())
    assert len(episodes) == 4 - lost
    assert counts["endings/env_failure"] == lost
    assert {n.split("/")[1]: c for n, c in counts.items() if n.startswith("env_failure_causes/")} == causes
    assert {n.split("/")[1]: c for n, c in counts.items() if n.startswith("env_worker_restarts/")} == restarts
    # The next group is whole, in two processes, one of which is still the old one.
    whole = rollout.run(plan_of(1))
    assert len(whole) == 4
    assert len({e.get_infos(0)["pid"] for e in whole}) == 2
    assert set(before) & {e.get_infos(0)["pid"] for e in whole} or trouble in ("kill", "hang")
    assert rollout.take_counts()["endings/env_failure"] == 0
    # What the environment had started went with its worker.
    assert len(running(processes(tmp_path))) == 2


def test_a_worker_that_dies_between_two_rollouts_costs_nothing(module: CausalLMRLModule, make_pool: MakePool) -> None:
    pool = make_pool(num_envs=4)
    rollout = rollout_of(module, pool)
    rollout.run(plan_of(1))
    process = pool._workers[0].process._process
    process.kill()
    process.wait()  # a zombie whose threads still end has not yet closed its socket
    assert len(rollout.run(plan_of(1))) == 4
    counts = rollout.take_counts()
    assert (counts["env_worker_restarts/died"], counts["endings/env_failure"]) == (1, 0)


def test_a_worker_that_could_not_be_replaced_is_started_when_it_is_needed(
    module: CausalLMRLModule, make_pool: MakePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = make_pool(num_envs=4)
    rollout = rollout_of(module, pool)
    rollout.run(plan_of(1))
    process = pool._workers[0].process._process
    process.kill()
    process.wait()

    def fail(*args: Any, **kwargs: Any) -> None:
        raise BlockingIOError(errno.EAGAIN, "no more processes")

    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "Popen", fail)
        assert len(rollout.run(plan_of(1))) == 2
    counts = rollout.take_counts()
    assert (counts["env_failure_causes/BlockingIOError"], counts["failure_kinds/infrastructure"]) == (2, 2)
    assert len(rollout.run(plan_of(1))) == 4


@pytest.mark.parametrize(
    ("limits", "reason", "config"),
    [
        (WorkerLimits(max_episodes=3), "max_episodes", {}),
        (WorkerLimits(memory_mb=150), "memory_limit", {"ballast_mb": 60}),
    ],
)
def test_workers_are_replaced_between_trajectories(
    module: CausalLMRLModule, make_pool: MakePool, limits: WorkerLimits, reason: str, config: dict
) -> None:
    rollout = rollout_of(module, make_pool(limits=limits, **config))
    pids = []
    for _ in range(3):
        episodes = rollout.run(plan_of(2))
        assert len(episodes) == 8
        assert all(len({info["pid"] for info in e.get_infos()}) == 1 for e in episodes)
        pids.append({e.get_infos(0)["pid"] for e in episodes})
    # 4 trajectories a worker in each rollout, after which every worker is due.
    assert not pids[0] & pids[1] and not pids[1] & pids[2]
    counts = rollout.take_counts()
    assert counts[f"env_worker_restarts/{reason}"] in (4, 5, 6)  # the last two may still be under way
    assert counts["endings/env_failure"] == 0


def test_a_worker_imports_neither_ray_nor_torch(make_pool: MakePool) -> None:
    assert make_pool(heavy_modules).observation_space.max_length == 1


def test_a_creator_sees_the_attributes_of_rllibs_context(make_pool: MakePool) -> None:
    def create(context: Any) -> Any:
        assert (context.worker_index, context.num_workers, context.vector_index) == (3, 5, 0)
        return Trouble(context)

    assert not make_pool(create).is_multi_agent


def test_a_gymnasium_id_of_this_process_is_known_to_the_workers(make_pool: MakePool, tmp_path: Path) -> None:
    import gymnasium as gym

    gym.register("OnlyHere-v0", entry_point=Trouble, disable_env_checker=True)
    pool = WorkerPool(
        environment_creator("OnlyHere-v0"),
        CreatorContext({"config": {"folder": str(tmp_path)}}, 0, 0),
        2,
        num_workers=1,
        limits=WorkerLimits(),
    )
    assert pool.observation_space.max_length == 1000
    pool.close()


def test_an_environment_that_cannot_be_made_at_all_raises_with_its_cause(make_pool: MakePool, tmp_path: Path) -> None:
    (tmp_path / "construct").touch()
    with pytest.raises(EnvironmentFailure, match=r"(?s)in _*init__.*ConnectionError: no such game"):
        make_pool()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"env_workers": -1}, r"env_workers=-1 must be an integer of at least 0"),
        ({"env_workers": 200}, r"env_workers=200 is more than num_envs_per_env_runner=128"),
        ({"env_workers": 2, "env_step_timeout_s": 0}, r"env_step_timeout_s=0 must be greater than 0"),
        ({"env_workers": 2, "env_worker_max_episodes": 0}, r"env_worker_max_episodes=0 must be an integer of at least"),
        ({"env_worker_memory_limit_mb": 500}, r"env_worker_memory_limit_mb=500 does nothing with env_workers=0"),
    ],
)
def test_a_setting_that_cannot_work_is_named(settings: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        small_config().env_runners(**settings).validate()


def test_a_creator_that_cannot_be_sent_is_named_before_anything_starts() -> None:
    lock = threading.Lock()
    config = small_config().environment(lambda context: lock).env_runners(env_workers=1)
    with pytest.raises(ValueError, match=r"env=.* cannot be sent to environment workers: .*lock.*env_workers=0"):
        config.validate()
