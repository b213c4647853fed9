"""What the environments that generate their instances have in common: the environment contract."""

from __future__ import annotations

import inspect
import pickle

import gymnasium as gym
import numpy as np
import pytest

from rllib_gigpo.env_adapters import make_env
from tests.environment_cases import GENERATED, ROOT, fingerprint, passes_gymnasiums_checker

pytestmark = pytest.mark.unit


@pytest.fixture(params=GENERATED)
def new_env(request: pytest.FixtureRequest):
    name, options = GENERATED[request.param]
    return lambda **more: make_env(name, **options, **more)


def test_gymnasiums_checker_finds_nothing(new_env) -> None:
    passes_gymnasiums_checker(new_env())


def test_a_task_alone_decides_the_start(new_env) -> None:
    first, second = new_env(), new_env(max_steps=20)
    for task in (0, 17, np.int64(17), 2**40):
        one = fingerprint(first, [task], [])
        first.reset(seed=1)
        second.reset(seed=2)
        assert one == fingerprint(first, [task], []) == fingerprint(second, [task], [])
    assert len({fingerprint(first, [task], []) for task in range(8)}) > 5


def test_without_a_task_the_seed_decides(new_env) -> None:
    env = new_env()
    starts = [fingerprint(env, [], [seed]) for seed in range(4)]
    assert starts == [fingerprint(new_env(), [], [seed]) for seed in range(4)]
    env.reset(seed=0)
    assert len({env.reset()[1]["task_id"] for _ in range(8)}) == 8, "later resets must go on drawing"


def test_infos_hold_what_the_platform_reads(new_env) -> None:
    env = new_env()
    _, info = env.reset(options={"task": 5})
    assert info["won"] is False and info["task_id"].endswith("/5") and isinstance(info["task_type"], str)
    for action in info["admissible_actions"]:
        env.reset(options={"task": 5})
        assert env.step(action)[4]["is_action_valid"] is True
    env.reset(options={"task": 5})
    assert env.step("")[4]["is_action_valid"] is False
    pickle.dumps(info)


def test_no_ops_alone_end_in_truncation(new_env) -> None:
    env: gym.Env = new_env(max_steps=15)
    start, _ = env.reset(options={"task": 3})
    for step in range(15):
        observation, _, terminated, truncated, info = env.step("")
        assert (terminated, truncated, info["won"]) == (False, step == 14, False)
    if isinstance(start, str) and "checked" not in start:
        assert observation == start


@pytest.mark.parametrize("task", ["17", 17.0, True, [17]])
def test_a_task_of_another_type_is_refused(new_env, task: object) -> None:
    env = new_env()
    with pytest.raises(TypeError, match=f"{type(env).__name__} takes an integer"):
        env.reset(options={"task": task})


def test_wrong_calls_are_refused(new_env) -> None:
    env = new_env()
    with pytest.raises(ValueError, match="task is -1"):
        env.reset(options={"task": -1})
    with pytest.raises(ValueError, match=r"options \['level'\]"):
        env.reset(options={"task": 1, "level": 2})
    with pytest.raises(RuntimeError, match=f"{type(env).__name__}.step was called before reset"):
        new_env().step(type(env).example_action)
    env.reset(seed=0)
    with pytest.raises(TypeError, match="action is 3 of type int"):
        env.step(3)


@pytest.mark.parametrize("value", [0, 8.0, True, "8"])
def test_a_wrong_step_limit_is_refused(new_env, value: object) -> None:
    with pytest.raises(ValueError, match=f"max_steps is {value!r}; it must be an integer of at least 1"):
        new_env(max_steps=value)


@pytest.mark.parametrize("name", sorted({name for name, _ in GENERATED.values()}))
def test_the_documentation_names_every_option(name: str) -> None:
    documented = (ROOT / "docs" / "environments.md").read_text()
    for option in inspect.signature(type(make_env(name))).parameters:
        assert f"`{option}`" in documented
