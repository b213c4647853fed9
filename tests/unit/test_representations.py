"""What public objects say about themselves in a debugger or a log."""

from __future__ import annotations

import numpy as np
import pytest

from rllib_gigpo.algorithms.gigpo import GiGPOConfig
from rllib_gigpo.env_runners.rollout_plan import GroupPlan, RolloutPlan
from rllib_gigpo.inference.protocol import SamplingParams
from rllib_gigpo.rows import StepRows, TokenRows

pytestmark = pytest.mark.unit


def test_a_config_says_what_differs_from_the_defaults() -> None:
    assert repr(GiGPOConfig()) == "GiGPOConfig()"
    config = GiGPOConfig().environment("EZPoints").training(group_size=4, lr=1e-3)
    assert repr(config) == "GiGPOConfig(env='EZPoints', lr=0.001, group_size=4)"
    assert len(repr(config.environment(tasks=list(range(10_000))))) < 300


def test_rows_say_how_many_they_are() -> None:
    ids = np.array([0, 0, 1])
    none = np.zeros(3, bool)
    rows = StepRows(np.zeros(3), none, ids, np.zeros(3, int), ids, none, np.array([2, 2, 1]))
    assert repr(rows) == "StepRows(3 rows, 2 trajectories, 1 groups, 2 anchor states)"
    tokens = TokenRows(np.zeros(9), np.array([4, 5]), np.array([1, 2]), np.zeros(3), *[np.zeros(2)] * 3)
    assert repr(tokens) == "TokenRows(2 rows, 9 tokens, 3 of them of responses)"


def test_a_plan_says_which_groups_it_has() -> None:
    groups = tuple(GroupPlan(group_id=number, task=number, env_seed=0, sampling_seed=0) for number in (3, 4, 5))
    plan = RolloutPlan(groups, group_size=8, min_group_size=2, sampling=SamplingParams(16))
    assert repr(plan) == "RolloutPlan(3 groups of 8, ids 3 to 5, explore=True)"
