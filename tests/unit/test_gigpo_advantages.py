"""GiGPO's advantages: the published code's numbers, hand-computed ones of the paper, and properties."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rllib_gigpo.algorithms.gigpo.advantages import gigpo_advantages
from rllib_gigpo.algorithms.grpo.advantages import grpo_advantages
from rllib_gigpo.connectors.anchor_states import anchor_state_ids

pytestmark = pytest.mark.unit

REFERENCE = json.loads((Path(__file__).parents[1] / "data" / "gigpo_reference_cases.json").read_text())
EXACT_CASES = [case for case in REFERENCE["cases"] if not case["similarity"]]


def first_appearance(names):
    numbers = {}
    return np.array([numbers.setdefault(name, len(numbers)) for name in names])


def random_rows(seed, groups=3, members=4, longest=6, states=4):
    """Columns (rewards, trajectory_ids, group_ids, anchor_ids) and `invalid` of random rollout groups."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, longest + 1, groups * members)
    trajectory_ids = np.repeat(np.arange(groups * members), lengths)
    rows = len(trajectory_ids)
    columns = (rng.normal(size=rows), trajectory_ids, trajectory_ids // members, rng.integers(0, states, rows))
    return columns, rng.random(rows) < 0.3


def test_there_are_twelve_exact_reference_cases():
    assert len(EXACT_CASES) == 12


@pytest.mark.parametrize("case", EXACT_CASES, ids=lambda case: f"{case['name']}-{case['mode']}")
def test_verl_agent_reference_reproduces_the_published_code(case):
    inputs, expected = case["inputs"], case["outputs"]
    group_ids = first_appearance(inputs["uid"])
    advantages = gigpo_advantages(
        inputs["rewards"],
        first_appearance(inputs["traj_uid"]),
        group_ids,
        anchor_state_ids(inputs["anchor_obs"], group_ids),
        gamma=REFERENCE["gamma"],
        step_advantage_weight=REFERENCE["omega"],
        norm={"mean_std_norm": "std", "mean_norm": "mean"}[case["mode"]],
        reference="verl-agent",
        invalid=inputs["invalid"],
        invalid_action_penalty=REFERENCE["invalid_action_penalty_coef"],
    )
    # The published code works in float32, hence the tolerance.
    for ours, theirs in (
        (advantages.returns, "step_rewards_after_penalty"),
        (advantages.episode, "episode_advantage"),
        (advantages.step, "step_advantage"),
        (advantages.total, "advantage"),
    ):
        assert ours.dtype == np.float32
        np.testing.assert_allclose(ours, expected[theirs], rtol=0, atol=1e-4, err_msg=theirs)


@pytest.mark.parametrize("case", EXACT_CASES, ids=lambda case: f"{case['name']}-{case['mode']}")
def test_anchor_ids_reproduce_the_published_step_groups(case):
    inputs = case["inputs"]
    ids = anchor_state_ids(inputs["anchor_obs"], first_appearance(inputs["uid"]))
    assert ids.tolist() == first_appearance(case["outputs"]["step_group"]).tolist()


# Two trajectories of one group: A wins (reward 10) in two steps, B fails in three and is invalid at its second.
# Anchor states: both start in 0; A's second and B's third step show 1; B's second step shows 2.
BY_HAND = ([0, 10, 0, 0, 0], [0, 0, 1, 1, 1], [0] * 5, [0, 1, 0, 2, 1])
BY_HAND_INVALID = [False, False, False, True, False]


def test_paper_numbers_by_hand_without_std():
    advantages = gigpo_advantages(*BY_HAND, gamma=0.5, norm="mean", invalid=BY_HAND_INVALID)
    np.testing.assert_allclose(advantages.returns, [5, 10, -0.05, -0.1, 0], atol=1e-6)
    # Totals 10 and −0.1: mean 4.95.
    np.testing.assert_allclose(advantages.episode, [5.05, 5.05, -5.05, -5.05, -5.05], atol=1e-6)
    # Step groups {5, −0.05}, {10, 0} and a lone −0.1.
    np.testing.assert_allclose(advantages.step, [2.525, 5, -2.525, 0, -5], atol=1e-6)
    np.testing.assert_allclose(advantages.total, [7.575, 10.05, -7.575, -5.05, -10.05], atol=1e-6)
    assert advantages.step[3] == 0


def test_paper_numbers_by_hand_with_std_are_half_root_two():
    """Two members x and y have Bessel std |x − y|/√2, so both lie at ±1/√2, whatever they are."""
    advantages = gigpo_advantages(*BY_HAND, gamma=0.5, invalid=BY_HAND_INVALID, step_advantage_weight=0.5)
    half_root = np.sqrt(0.5)
    np.testing.assert_allclose(advantages.episode, half_root * np.array([1, 1, -1, -1, -1]), atol=1e-6)
    np.testing.assert_allclose(advantages.step, half_root * np.array([1, 1, -1, 0, -1]), atol=1e-6)
    np.testing.assert_allclose(advantages.total, advantages.episode + 0.5 * advantages.step, atol=1e-6)


def test_verl_agent_numbers_by_hand_without_std():
    advantages = gigpo_advantages(*BY_HAND, gamma=0.5, norm="mean", invalid=BY_HAND_INVALID, reference="verl-agent")
    np.testing.assert_allclose(advantages.returns, [5, 10, 0, -0.1, 0], atol=1e-6)
    # Row scores 10, 10, 0, −0.1, 0: mean 3.98.
    np.testing.assert_allclose(advantages.episode, [6.02, 6.02, -3.98, -4.08, -3.98], atol=1e-6)
    np.testing.assert_allclose(advantages.step, [2.5, 5, -2.5, 0, -5], atol=1e-6)


def test_one_win_against_one_long_loss_is_symmetric_in_the_paper_and_row_weighted_in_the_published_code():
    rewards = np.zeros(52)
    rewards[1] = 10
    columns = (rewards, np.repeat([0, 1], [2, 50]), np.zeros(52, int), np.arange(52))
    paper = gigpo_advantages(*columns).episode
    published = gigpo_advantages(*columns, reference="verl-agent").episode
    np.testing.assert_allclose(paper[[0, -1]], [0.7071, -0.7071], atol=1e-4)
    np.testing.assert_allclose(published[[0, -1]], [4.95, -0.198], atol=1e-2)


# Four trajectories of one step that all fail, one of them invalid.
ALL_FAIL = (np.zeros(4), np.arange(4), np.zeros(4, int), np.zeros(4, int))
ONE_INVALID = np.array([True, False, False, False])


@pytest.mark.parametrize("reference", ["paper", "verl-agent"])
def test_all_fail_with_mixed_validity_gives_the_formulas_numbers(reference):
    """Scores −0.1, 0, 0, 0: mean −0.025, Bessel std 0.05: the small penalty becomes unit-sized."""
    with_std = gigpo_advantages(*ALL_FAIL, invalid=ONE_INVALID, reference=reference)
    level = np.array([-0.075, 0.025, 0.025, 0.025]) / (0.05 + 1e-6)
    np.testing.assert_allclose(with_std.episode, level, atol=1e-5)
    np.testing.assert_allclose(with_std.step, level, atol=1e-5)
    np.testing.assert_allclose(with_std.total, [-3, 1, 1, 1], atol=1e-3)
    without_std = gigpo_advantages(*ALL_FAIL, invalid=ONE_INVALID, reference=reference, norm="mean")
    np.testing.assert_allclose(without_std.total, [-0.15, 0.05, 0.05, 0.05], atol=1e-6)


def test_std_floor_limits_what_a_penalty_becomes():
    floored = gigpo_advantages(*ALL_FAIL, invalid=ONE_INVALID, std_floor=1.0)
    np.testing.assert_allclose(floored.total, [-0.15, 0.05, 0.05, 0.05], atol=1e-5)


@pytest.mark.parametrize("reference", ["paper", "verl-agent"])
@pytest.mark.parametrize("members", [2, 3, 7, 64])
@pytest.mark.parametrize("norm", ["std", "mean"])
def test_identical_returns_give_exactly_zero(reference, members, norm):
    """0.95^k·10 in float32: their float32 mean is often one rounding off, which a std of nearly 0 would blow up."""
    for power in range(0, 60, 3):
        reward = np.float32(0.95**power * 10)
        ids = np.arange(members)
        columns = (np.full(members, reward), ids, np.zeros(members, int), np.zeros(members, int))
        advantages = gigpo_advantages(*columns, reference=reference, norm=norm)
        for level in (advantages.total, advantages.episode, advantages.step):
            assert level.tolist() == [0.0] * members


@settings(deadline=None, max_examples=50)
@given(
    st.floats(-1e6, 1e6, width=32),
    st.integers(2, 9),
    st.integers(1, 9),
    st.sampled_from(["paper", "verl-agent"]),
    st.sampled_from(["std", "mean"]),
)
def test_equal_trajectories_give_exactly_zero(reward, members, steps, reference, norm):
    """Every member has the same rewards and walks through the same states, each once."""
    columns = (
        np.full(members * steps, reward, np.float32),
        np.repeat(np.arange(members), steps),
        np.zeros(members * steps, int),
        np.tile(np.arange(steps), members),
    )
    assert not gigpo_advantages(*columns, reference=reference, norm=norm).total.any()


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 10_000), st.sampled_from(["paper", "verl-agent"]), st.sampled_from(["std", "mean"]))
def test_permuting_trajectories_permutes_the_result(seed, reference, norm):
    columns, invalid = random_rows(seed)
    order = np.random.default_rng(seed + 1).permutation(columns[1].max() + 1)
    rows = np.concatenate([np.flatnonzero(columns[1] == trajectory) for trajectory in order])
    options = {"reference": reference, "norm": norm}
    straight = gigpo_advantages(*columns, invalid=invalid, **options)
    permuted = gigpo_advantages(*(c[rows] for c in columns), invalid=invalid[rows], **options)
    for one, other in zip(straight, permuted, strict=True):
        # Sums in another order: float64 rounding, divided by a std that may be small.
        np.testing.assert_allclose(one[rows], other, rtol=1e-5, atol=1e-5)


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 10_000), st.sampled_from(["paper", "verl-agent"]))
def test_a_group_does_not_depend_on_the_other_groups(seed, reference):
    """All groups use the same anchor ids, so anything that leaks between groups shows."""
    columns, invalid = random_rows(seed)
    together = gigpo_advantages(*columns, invalid=invalid, reference=reference)
    for group in range(3):
        rows = columns[2] == group
        alone = gigpo_advantages(*(c[rows] for c in columns), invalid=invalid[rows], reference=reference)
        for one, other in zip(together, alone, strict=True):
            np.testing.assert_allclose(one[rows], other, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("reference", ["paper", "verl-agent"])
@pytest.mark.parametrize("norm", ["std", "mean"])
def test_without_step_weight_the_total_is_grpos(reference, norm):
    columns, invalid = random_rows(3)
    options = {"reference": reference, "norm": norm, "invalid": invalid, "std_floor": 0.2}
    gigpo = gigpo_advantages(*columns, step_advantage_weight=0.0, **options)
    grpo = grpo_advantages(*columns[:3], **options)
    assert np.array_equal(gigpo.total, grpo.total)
    assert np.array_equal(gigpo.episode, grpo.episode)


@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32), min_size=1, max_size=20),
    st.sampled_from(["paper", "verl-agent"]),
)
def test_every_finite_reward_gives_finite_results(rewards, reference):
    rows = np.arange(len(rewards))
    advantages = gigpo_advantages(rewards, rows // 2, rows // 6, rows % 3, reference=reference)
    assert all(np.isfinite(level).all() for level in advantages)


def test_a_lone_trajectory_is_silent_in_the_paper_and_a_lone_row_keeps_its_score_in_the_published_code():
    assert gigpo_advantages([10.0], [0], [0], [0]).total.tolist() == [0.0]
    assert gigpo_advantages([10.0], [0], [0], [0], reference="verl-agent").total.tolist() == [10.0]


def test_without_rows():
    assert [len(level) for level in gigpo_advantages([], [], [], [])] == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gamma": 1.1}, "gamma is 1.1"),
        ({"gamma": float("nan")}, "gamma is nan"),
        ({"norm": "batch"}, "norm is 'batch'"),
        ({"reference": "verl"}, "reference is 'verl'"),
        ({"invalid_action_penalty": -0.1}, "invalid_action_penalty is -0.1"),
        ({"std_floor": -1.0}, "std_floor is -1.0"),
        ({"step_advantage_weight": float("inf")}, "step_advantage_weight is inf"),
        ({"invalid": [False]}, "invalid has 1 rows"),
    ],
)
def test_a_wrong_option_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        gigpo_advantages([1.0, 2.0], [0, 1], [0, 0], [0, 0], **options)


def test_a_wrong_anchor_column_is_named():
    with pytest.raises(ValueError, match="anchor_ids has 3 rows"):
        gigpo_advantages([1.0, 2.0], [0, 1], [0, 0], [0, 0, 0])
