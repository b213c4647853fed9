"""RLOO, REINFORCE++ and GSPO, and properties that hold for the advantages of every algorithm."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rllib_gigpo.algorithms.gagpo import GAGPO, GAGPOConfig
from rllib_gigpo.algorithms.gagpo.advantages import gagpo_advantages
from rllib_gigpo.algorithms.gigpo import GiGPO, GiGPOConfig
from rllib_gigpo.algorithms.gigpo.advantages import gigpo_advantages
from rllib_gigpo.algorithms.grpo import GRPO
from rllib_gigpo.algorithms.grpo.advantages import grpo_advantages
from rllib_gigpo.algorithms.gspo import GSPO, GSPOConfig
from rllib_gigpo.algorithms.reinforce import REINFORCEPlusPlusConfig
from rllib_gigpo.algorithms.reinforce.advantages import reinforce_plus_plus_advantages
from rllib_gigpo.algorithms.rloo import RLOOConfig
from rllib_gigpo.algorithms.rloo.advantages import rloo_advantages
from rllib_gigpo.connectors.anchor_states import AnchorStateGrouping, anchor_state_ids
from rllib_gigpo.env_adapters import embedded_model_path
from rllib_gigpo.rows import StepRows

pytestmark = pytest.mark.unit


# Three trajectories of group 0 with scores 10, 0, −0.2 (two invalid steps), and two of group 1 with scores 4 and 1.
REWARDS = [0, 10, 0, 0, 0, 4, 1]
TRAJECTORIES = [0, 0, 1, 2, 2, 3, 4]
GROUPS = [0, 0, 0, 0, 0, 1, 1]
INVALID = [False, False, False, True, True, False, False]


def test_rloo_by_hand():
    total = rloo_advantages(REWARDS, TRAJECTORIES, GROUPS, invalid=INVALID).total
    first, second, third = 10 - (0 - 0.2) / 2, 0 - (10 - 0.2) / 2, -0.2 - (10 + 0) / 2
    np.testing.assert_allclose(total, [first, first, second, third, third, 3, -3], atol=1e-6)
    assert total.dtype == np.float32


def test_rloo_is_silent_for_a_lone_trajectory_and_for_equal_scores():
    assert rloo_advantages([10.0, 3, 3], [0, 1, 2], [0, 1, 1]).total.tolist() == [0, 0, 0]


def test_reinforce_plus_plus_by_hand():
    """γ = 0.5: returns 5, 10 | 0 | −0.15, −0.1 | 4 | 1, normalized over all seven rows."""
    returns = np.array([5, 10, 0, -0.15, -0.1, 4, 1])
    total, score = reinforce_plus_plus_advantages(REWARDS, TRAJECTORIES, GROUPS, gamma=0.5, invalid=INVALID)
    np.testing.assert_allclose(score, returns, atol=1e-6)
    np.testing.assert_allclose(total, (returns - returns.mean()) / (returns.std(ddof=1) + 1e-6), atol=1e-6)


def test_reinforce_plus_plus_with_group_baseline_by_hand():
    mean = 9.8 / 3
    centred = np.array([10 - mean] * 2 + [0 - mean] + [-0.2 - mean] * 2 + [1.5, -1.5])
    total, score = reinforce_plus_plus_advantages(
        REWARDS, TRAJECTORIES, GROUPS, gamma=0.5, group_baseline=True, invalid=INVALID
    )
    np.testing.assert_allclose(score, centred, atol=1e-6)
    np.testing.assert_allclose(total, (centred - centred.mean()) / (centred.std(ddof=1) + 1e-6), atol=1e-6)


def test_reinforce_plus_plus_compares_over_groups_of_one():
    total = reinforce_plus_plus_advantages([10, 0, 0, 10], [0, 1, 2, 3], [0, 1, 2, 3]).total
    np.testing.assert_allclose(total, np.array([1, -1, -1, 1]) * np.sqrt(3) / 2, atol=1e-5)
    assert reinforce_plus_plus_advantages([10, 10], [0, 1], [0, 1]).total.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("function", "options", "message"),
    [
        (grpo_advantages, {"std_floor": np.inf}, "std_floor is inf; it must be finite as float32"),
        (grpo_advantages, {"reference": "code"}, "reference is 'code'"),
        (rloo_advantages, {"invalid_action_penalty": -1}, "invalid_action_penalty is -1"),
        (rloo_advantages, {"invalid_action_penalty": 1e39}, r"invalid_action_penalty is 1e\+39; it must be finite"),
        (reinforce_plus_plus_advantages, {"gamma": np.nan}, "gamma is nan"),
        (reinforce_plus_plus_advantages, {"gamma": -0.1}, "gamma is -0.1"),
        (reinforce_plus_plus_advantages, {"gamma": 2}, "gamma is 2"),
        (reinforce_plus_plus_advantages, {"std_floor": -1}, "std_floor is -1"),
        (reinforce_plus_plus_advantages, {"invalid": [True]}, "invalid has 1 rows"),
    ],
)
def test_a_wrong_option_is_named(function, options, message):
    with pytest.raises(ValueError, match=message):
        function([1.0, 2.0], [0, 1], [0, 0], **options)


# name -> (function of rewards, trajectory_ids, group_ids, anchor_ids -> its columns, divides by a std, within groups)
ALGORITHMS = {
    "grpo": (lambda *c, **o: grpo_advantages(*c[:3], **o), True, True),
    "grpo-mean": (lambda *c, **o: grpo_advantages(*c[:3], norm="mean", **o), False, True),
    "gigpo": (gigpo_advantages, True, True),
    "gigpo-mean": (lambda *c, **o: gigpo_advantages(*c, norm="mean", **o), False, True),
    "gagpo": (gagpo_advantages, True, True),
    "gagpo-raw": (lambda *c, **o: gagpo_advantages(*c, normalize=False, **o), False, True),
    "gagpo-batch": (lambda *c, **o: gagpo_advantages(*c, normalize_over="batch", **o), True, False),
    "gagpo-trajectory": (lambda *c, **o: gagpo_advantages(*c, trajectory_advantage_weight=1, **o), True, True),
    "rloo": (lambda *c, **o: rloo_advantages(*c[:3], **o), False, True),
    "reinforce": (lambda *c, **o: reinforce_plus_plus_advantages(*c[:3], **o), True, False),
    "reinforce-baseline": (
        lambda *c, **o: reinforce_plus_plus_advantages(*c[:3], group_baseline=True, **o),
        True,
        False,
    ),
}
NAMES = st.sampled_from(sorted(ALGORITHMS))


def random_rows(seed, groups=3, members=4, longest=6, states=4):
    """Columns (rewards, trajectory_ids, group_ids, anchor_ids) and `invalid` of random rollout groups."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, longest + 1, groups * members)
    trajectory_ids = np.repeat(np.arange(groups * members), lengths)
    rows = len(trajectory_ids)
    columns = (rng.normal(size=rows), trajectory_ids, trajectory_ids // members, rng.integers(0, states, rows))
    return columns, rng.random(rows) < 0.3


@settings(deadline=None, max_examples=40)
@given(NAMES, st.integers(0, 10_000))
def test_permuting_trajectories_and_groups_permutes_the_result(name, seed):
    function = ALGORITHMS[name][0]
    columns, invalid = random_rows(seed)
    order = np.random.default_rng(seed + 1).permutation(columns[1].max() + 1)
    rows = np.concatenate([np.flatnonzero(columns[1] == trajectory) for trajectory in order])
    straight = function(*columns, invalid=invalid)
    permuted = function(*(c[rows] for c in columns), invalid=invalid[rows])
    for one, other in zip(straight, permuted, strict=True):
        # Sums in another order: float64 rounding, divided by a std that may be small.
        np.testing.assert_allclose(one[rows], other, rtol=1e-5, atol=1e-5)


@settings(deadline=None, max_examples=30)
@given(st.sampled_from(["grpo", "grpo-mean", "gigpo", "gigpo-mean", "rloo"]), st.integers(0, 10_000), st.floats(-9, 9))
def test_a_constant_on_every_return_of_a_group_leaves_the_trajectory_advantage(name, seed, constant):
    function = ALGORITHMS[name][0]
    columns, invalid = random_rows(seed)
    last = np.append(columns[1][1:] != columns[1][:-1], True)
    shifted = columns[0] + constant * (last & (columns[2] == 1))
    before, after = (function(rewards, *columns[1:], invalid=invalid) for rewards in (columns[0], shifted))
    level = "episode" if hasattr(before, "episode") else "total"
    np.testing.assert_allclose(getattr(after, level), getattr(before, level), rtol=1e-4, atol=1e-4)


@settings(deadline=None, max_examples=40)
@given(NAMES, st.integers(0, 10_000), st.floats(0.1, 100))
def test_scaling_the_rewards_scales_the_result_or_leaves_it_where_it_is_divided_by_std(name, seed, factor):
    function, divides, _ = ALGORITHMS[name]
    columns, _ = random_rows(seed)
    before = function(*columns).total
    after = function(columns[0] * factor, *columns[1:]).total
    # The 1e-6 that is added to the std does not scale; a small std, of two similar members, lets it show.
    np.testing.assert_allclose(after, before * (1 if divides else factor), rtol=2e-2 if divides else 1e-4, atol=1e-4)


@settings(deadline=None, max_examples=40)
@given(
    NAMES,
    st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32), min_size=1, max_size=20),
    st.integers(1, 4),
)
def test_every_finite_reward_gives_finite_results(name, rewards, states):
    rows = np.arange(len(rewards))
    for column in ALGORITHMS[name][0](rewards, rows // 2, rows // 6, rows % states):
        assert np.isfinite(column).all()


LARGEST = float(np.finfo(np.float32).max)


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
@pytest.mark.parametrize("states", [1, 3])
def test_the_largest_rewards_and_penalties_give_finite_results(name, states):
    """Their sums, squares and differences overflow float32 many times over."""
    rng = np.random.default_rng(0)
    rewards = LARGEST * rng.choice([-1.0, 1.0, 0.0, 1e-38], 60)
    rows, invalid = np.arange(60), rng.random(60) < 0.5
    columns = (rewards, rows // 5, rows // 20, rows % states)
    for column in ALGORITHMS[name][0](*columns, invalid=invalid, invalid_action_penalty=LARGEST):
        assert np.isfinite(column).all()


WRONG_COLUMNS = [
    ({"rewards": [1, np.nan, 3, 4]}, r"rewards\[1\] is nan; rewards must be finite"),
    ({"rewards": [1, 2, -np.inf, 4]}, r"rewards\[2\] is -inf; rewards must be finite"),
    ({"rewards": [1, 2, 3]}, "trajectory_ids has 4 rows, rewards has 3"),
    ({"rewards": [[1, 2, 3, 4]]}, r"rewards has shape \(1, 4\); it must have one dimension"),
    ({"trajectory_ids": [0, 0, 1]}, "trajectory_ids has 3 rows, rewards has 4"),
    ({"trajectory_ids": [0, 1, 0, 1]}, r"trajectory_ids\[2\] is 0, which had ended before"),
    ({"trajectory_ids": [0.0, 0.0, 1.0, 1.0]}, "trajectory_ids has dtype float64"),
    ({"group_ids": [0, 0, 0]}, "group_ids has 3 rows, rewards has 4"),
    ({"group_ids": [0, 0, 0, 1]}, r"group_ids\[3\] is 1, but trajectory 1 began in group 0"),
    ({"anchor_ids": [0, 1, 0]}, "anchor_ids has 3 rows, rewards has 4"),
    ({"anchor_ids": [0.0, 1.0, 0.0, 1.0]}, "anchor_ids has dtype float64"),
    ({"invalid": [True]}, "invalid has 1 rows, rewards has 4"),
    ({"invalid": [0, 1, 0, 1]}, "invalid has dtype int64"),
]


@pytest.mark.parametrize(
    ("name", "changed", "message"),
    [
        (name, *wrong)
        for name in sorted(ALGORITHMS)
        for wrong in WRONG_COLUMNS
        if name.startswith(("gigpo", "gagpo")) or "anchor_ids" not in wrong[0]  # the others do not compare states
    ],
)
def test_a_wrong_column_is_named_with_its_row(name, changed, message):
    columns = {"rewards": [1, 2, 3, 4], "trajectory_ids": [0, 0, 1, 1], "group_ids": [0] * 4, "anchor_ids": [0, 1] * 2}
    columns |= changed
    invalid = columns.pop("invalid", None)
    with pytest.raises(ValueError, match=message):
        ALGORITHMS[name][0](*columns.values(), invalid=invalid)


@settings(deadline=None, max_examples=30)
@given(st.sampled_from([n for n in ALGORITHMS if ALGORITHMS[n][2]]), st.integers(0, 10_000))
def test_a_group_does_not_depend_on_the_other_groups(name, seed):
    """All groups use the same anchor ids, so anything that leaks between groups shows."""
    function = ALGORITHMS[name][0]
    columns, invalid = random_rows(seed)
    together = function(*columns, invalid=invalid)
    for group in range(3):
        rows = columns[2] == group
        alone = function(*(c[rows] for c in columns), invalid=invalid[rows])
        for one, other in zip(together, alone, strict=True):
            np.testing.assert_allclose(one[rows], other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("threshold", [None, 0.5])
def test_equal_observations_of_two_groups_never_share_an_anchor(threshold):
    ids = anchor_state_ids(["same", "same"], [0, 1], similarity_threshold=threshold)
    assert ids[0] != ids[1]


def ready(config):
    """`config` with everything that validation asks for."""
    config.environment("EZPoints").language_model(model_path=str(embedded_model_path("EZPoints")))
    return config.generation(max_prompt_tokens=160, max_response_tokens=32)


def test_ratio_and_clip_range_belong_together():
    for config in (GSPOConfig(), GAGPOConfig()):
        assert (config.ratio, config.clip_low, config.clip_high) == ("sequence", 0.02, 0.02)
    for config in (RLOOConfig(), REINFORCEPlusPlusConfig(), GiGPOConfig()):
        assert (config.ratio, config.clip_low, config.clip_high) == ("token", 0.2, 0.2)


def test_gspo_has_grpos_advantages():
    assert GSPO.compute_advantages is GRPO.compute_advantages
    assert GSPO.get_default_config().algo_class is GSPO


def test_only_reinforce_plus_plus_takes_groups_of_one():
    ready(REINFORCEPlusPlusConfig()).training(group_size=1).validate()
    for config in (RLOOConfig(), GSPOConfig(), GAGPOConfig()):
        with pytest.raises(ValueError, match="group_size=1 is too small"):
            ready(config).training(group_size=1).validate()
    with pytest.raises(ValueError, match="group_baseline needs the mean of a group"):
        ready(REINFORCEPlusPlusConfig()).training(group_size=1, group_baseline=True).validate()


@pytest.mark.parametrize(
    ("config_class", "key", "value", "message"),
    [
        (RLOOConfig, "advantage_norm", "std", "advantage_norm='std' does not apply to RLOO: leave it at 'mean'"),
        (RLOOConfig, "advantage_std_floor", 1.0, "advantage_std_floor=1.0 does not apply to RLOO"),
        (RLOOConfig, "reference", "verl-agent", "reference='verl-agent' does not apply to RLOO"),
        (REINFORCEPlusPlusConfig, "advantage_norm", "mean", "does not apply to REINFORCEPlusPlus"),
        (GAGPOConfig, "advantage_norm", "mean", "advantage_norm='mean' does not apply to GAGPO"),
        (GAGPOConfig, "lambda_", 1.5, "lambda_=1.5 must be in"),
        (GAGPOConfig, "advantage_normalization", "rows", "advantage_normalization='rows' is unknown; choose one of"),
        (GAGPOConfig, "trajectory_advantage_weight", -1.0, "trajectory_advantage_weight=-1.0 must not be negative"),
        (GAGPOConfig, "anchor", "prompt", "anchor='prompt' is unknown"),
        (GiGPOConfig, "similarity_threshold", 1.5, "similarity_threshold is 1.5"),
        (GAGPOConfig, "similarity", "cosine", "similarity is 'cosine'"),
    ],
)
def test_a_wrong_config_value_is_named(config_class, key, value, message):
    with pytest.raises(ValueError, match=message):
        ready(config_class()).training(**{key: value}).validate()


def bare(algorithm, config):
    """An algorithm that has its config and was never set up, for which it would need Ray."""
    instance = algorithm.__new__(algorithm)
    instance.config = config
    return instance


@pytest.mark.parametrize(
    ("algorithm", "training", "function", "options"),
    [
        (GAGPO, {"lambda_": 0.5}, gagpo_advantages, {"lambda_": 0.5}),
        (GAGPO, {"gamma": 0.5, "invalid_action_penalty": 2.0}, gagpo_advantages, {"gamma": 0.5}),
        (GAGPO, {"bootstrap_truncated": True}, gagpo_advantages, {"terminated": np.zeros(40, bool)}),
        (GAGPO, {"advantage_normalization": "batch"}, gagpo_advantages, {"normalize_over": "batch"}),
        (GAGPO, {"advantage_normalization": "none"}, gagpo_advantages, {"normalize": False}),
        (GAGPO, {"trajectory_advantage_weight": 1.0}, gagpo_advantages, {"trajectory_advantage_weight": 1.0}),
        (GAGPO, {"advantage_std_floor": 9.0}, gagpo_advantages, {"std_floor": 9.0}),
        (GiGPO, {"step_advantage_weight": 0.4}, gigpo_advantages, {"step_advantage_weight": 0.4}),
        (GiGPO, {"advantage_norm": "mean", "gamma": 0.5}, gigpo_advantages, {"norm": "mean", "gamma": 0.5}),
        (GiGPO, {"reference": "verl-agent"}, gigpo_advantages, {"reference": "verl-agent"}),
        (GiGPO, {"advantage_std_floor": 9.0}, gigpo_advantages, {"std_floor": 9.0}),
    ],
)
def test_the_keys_of_the_config_reach_the_function(algorithm, training, function, options):
    (rewards, trajectory_ids, group_ids, anchor_ids), invalid = random_rows(0, members=3, longest=16)
    columns = [column[:40] for column in (rewards.astype(np.float32), trajectory_ids, group_ids, anchor_ids)]
    step_rows = StepRows(*columns[:1], invalid[:40], *columns[1:], np.zeros(40, bool), np.ones(40, np.int64))
    config = algorithm.get_default_config().training(**training)
    found = algorithm.compute_advantages(bare(algorithm, config), step_rows)
    penalty = {"invalid_action_penalty": training.get("invalid_action_penalty", 0.1)}
    expected = function(*columns, invalid=invalid[:40], **penalty, **options).total
    np.testing.assert_array_equal(found, expected)
    assert not np.allclose(found, function(*columns, invalid=invalid[:40]).total), "or the test shows nothing"


@pytest.mark.parametrize("config_class", [GiGPOConfig, GAGPOConfig])
def test_the_anchor_keys_reach_the_connector(config_class):
    (piece,) = config_class().training(similarity_threshold=0.9, similarity="difflib").anchor_connectors()
    assert isinstance(piece, AnchorStateGrouping)
    assert (piece.anchor, piece.similarity_threshold, piece.similarity) == ("auto", 0.9, "difflib")
