"""PPO's advantages: by hand, the limits of λ, a plain loop of the formulas; and the KL as a part of rewards."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rllib_gigpo.algorithms.group_policy.kl_in_reward import coefficient_at, kl_penalties
from rllib_gigpo.algorithms.grpo import GRPOConfig
from rllib_gigpo.algorithms.ppo import PPOConfig
from rllib_gigpo.algorithms.ppo.advantages import explained_variance, gae_advantages, token_columns
from rllib_gigpo.env_adapters import embedded_model_path
from rllib_gigpo.rows import StepRows, TokenRows

pytestmark = pytest.mark.unit

# Rewards, values, trajectories: three steps to a win of 8, and one lost step.
BY_HAND = ([0, 0, 8, -1], [1, 2, 4, 3], ["A", "A", "A", "B"])


def random_columns(seed, trajectories=6, longest=6):
    """Columns (rewards, values, trajectory_ids), `invalid` and `terminated` of random trajectories."""
    rng = np.random.default_rng(seed)
    ids = np.repeat(np.arange(trajectories), rng.integers(1, longest + 1, trajectories))
    rows = len(ids)
    last = np.append(ids[1:] != ids[:-1], True)
    return (rng.normal(size=rows), rng.normal(size=rows), ids), rng.random(rows) < 0.3, last & (rng.random(rows) < 0.5)


def by_loop(rewards, values, trajectory_ids, *, gamma, lambda_, invalid, penalty, terminated=None):
    """Unnormalized advantages, row by row."""
    rows = len(rewards)
    advantages = np.zeros(rows)
    for t in reversed(range(rows)):
        goes_on = t + 1 < rows and trajectory_ids[t + 1] == trajectory_ids[t]
        cut_off = terminated is not None and not terminated[t]
        after = values[t + 1] if goes_on else values[t] if cut_off else 0.0
        advantages[t] = rewards[t] - penalty * invalid[t] + gamma * after - values[t]
        advantages[t] += gamma * lambda_ * advantages[t + 1] if goes_on else 0.0
    return advantages


def test_two_trajectories_by_hand():
    """δ = 0 + 1 − 1, 0 + 2 − 2, 8 − 4 and −1 − 3; the 4 of the win comes back at a quarter a step."""
    estimate = gae_advantages(*BY_HAND, gamma=0.5, lambda_=0.5, normalize=False)
    assert estimate.total.tolist() == [0.25, 1, 4, -4]
    assert estimate.returns.tolist() == [1.25, 3, 8, -1]
    assert all(column.dtype == np.float32 for column in estimate)


def test_normalized_by_hand_over_the_batch():
    raw = np.array([0.25, 1, 4, -4])
    estimate = gae_advantages(*BY_HAND, gamma=0.5, lambda_=0.5)
    np.testing.assert_allclose(estimate.total, (raw - raw.mean()) / (raw.std(ddof=1) + 1e-6), atol=1e-6)
    assert estimate.returns.tolist() == [1.25, 3, 8, -1], "what the critic learns stays in units of the reward"


def test_a_truncated_trajectory_continues_in_the_value_of_its_last_state():
    """A is cut off: δ = 8 + 0.5 · 4 − 4 at its end. B terminated."""
    cut_off = gae_advantages(*BY_HAND, gamma=0.5, lambda_=0.5, normalize=False, terminated=[False, False, False, True])
    assert cut_off.total.tolist() == [0.375, 1.5, 6, -4]


def test_the_penalty_is_part_of_the_reward_of_the_invalid_step():
    estimate = gae_advantages(
        *BY_HAND, gamma=0.5, lambda_=1, normalize=False, invalid=[False, True, False, False], invalid_action_penalty=1
    )
    assert estimate.returns.tolist() == [1.5, 3, 8, -1]


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from([0.0, 0.7, 1.0]), st.booleans())
def test_the_plain_loop_gives_the_same(seed, gamma, lambda_, truncates):
    columns, invalid, terminated = random_columns(seed)
    options = {"gamma": gamma, "lambda_": lambda_, "invalid": invalid, "terminated": terminated if truncates else None}
    estimate = gae_advantages(*columns, normalize=False, **options)
    expected = by_loop(*columns, penalty=0.1, **options)
    # float32 sums of numbers around 1
    np.testing.assert_allclose(estimate.total, expected, atol=1e-5)
    np.testing.assert_allclose(estimate.returns, expected + columns[1], atol=1e-5)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.9, 1.0]))
def test_with_lambda_one_the_targets_are_discounted_returns_and_with_zero_one_step_ones(seed, gamma):
    (rewards, values, ids), _, _ = random_columns(seed)
    zeros = np.zeros(len(values))
    discounted = by_loop(rewards, zeros, ids, gamma=gamma, lambda_=1.0, invalid=zeros, penalty=0.0)
    full = gae_advantages(rewards, values, ids, gamma=gamma, lambda_=1.0, normalize=False)
    np.testing.assert_allclose(full.returns, discounted, atol=1e-5)
    one_step = gae_advantages(rewards, values, ids, gamma=gamma, lambda_=0.0, normalize=False)
    following = np.where(np.append(ids[1:] == ids[:-1], False), np.append(values[1:], 0.0), 0.0)
    np.testing.assert_allclose(one_step.returns, rewards + gamma * following, atol=1e-5)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10_000), st.booleans())
def test_permuting_trajectories_permutes_the_result(seed, normalize):
    columns, invalid, terminated = random_columns(seed)
    order = np.concatenate(
        [np.flatnonzero(columns[2] == i) for i in np.random.default_rng(seed).permutation(columns[2][-1] + 1)]
    )
    options = {"gamma": 0.9, "lambda_": 0.8, "normalize": normalize}
    one = gae_advantages(*columns, invalid=invalid, terminated=terminated, **options)
    other = gae_advantages(
        *(column[order] for column in columns), invalid=invalid[order], terminated=terminated[order], **options
    )
    for mine, permuted in zip(one, other, strict=True):
        np.testing.assert_allclose(mine[order], permuted, atol=1e-5)


def test_nothing_leaks_from_one_trajectory_into_another():
    (rewards, values, ids), _, _ = random_columns(3)
    others = ids != 2
    changed = gae_advantages(np.where(others, 100.0, rewards), np.where(others, -50.0, values), ids, normalize=False)
    plain = gae_advantages(rewards, values, ids, normalize=False)
    assert changed.total[~others].tolist() == plain.total[~others].tolist()


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32), min_size=1, max_size=40),
    st.floats(0, 1),
    st.floats(0, 1),
)
def test_finite_input_gives_finite_output(rewards, gamma, lambda_):
    rows = np.arange(len(rewards))
    for column in gae_advantages(rewards, rewards[::-1], rows // 7, gamma=gamma, lambda_=lambda_):
        assert np.isfinite(column).all()


def test_a_critic_that_is_right_leaves_nothing_to_learn():
    """Equal errors, here none, are an advantage of exactly 0, whatever the std."""
    assert gae_advantages([0, 0, 8], [2, 4, 8], [0, 0, 0], gamma=0.5).total.tolist() == [0, 0, 0]
    assert [len(column) for column in gae_advantages([], [], [])] == [0, 0]


def test_the_std_floor_limits_small_differences():
    small = gae_advantages([0.0, 1e-3], [0, 0], [0, 1], std_floor=1.0).total
    np.testing.assert_allclose(small, [-5e-4, 5e-4], rtol=1e-3)


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (([1, 1], [0, 0], [0, 1]), {"gamma": 1.1}, "gamma is 1.1"),
        (([1, 1], [0, 0], [0, 1]), {"lambda_": math.nan}, "lambda_ is nan"),
        (([1, 1], [0, 0], [0, 1]), {"invalid_action_penalty": -1}, "invalid_action_penalty is -1"),
        (([1, 1], [0, 0], [0, 0]), {"terminated": [True, True]}, r"terminated\[0\] is True, but the trajectory goes"),
        (([1, 1], [0, math.inf], [0, 1]), {}, r"values\[1\] is inf; values must be finite"),
        (([1, 1], [0, 1e39], [0, 1]), {}, r"values\[1\] is 1e\+39; values must be finite as float32"),
        (([1, 1], [0], [0, 1]), {}, "values has 1 rows"),
        (([1, math.nan], [0, 0], [0, 1]), {}, r"rewards\[1\] is nan"),
        (([1, 1, 1], [0, 0, 0], [0, 1, 0]), {}, r"trajectory_ids\[2\] is 0, which had ended before"),
    ],
)
def test_what_is_wrong_is_named(columns, options, message):
    with pytest.raises(ValueError, match=message):
        gae_advantages(*columns, **options)


def steps(rewards, trajectory_ids, terminated, invalid, response_lengths):
    ids = np.array(trajectory_ids)
    return StepRows(
        rewards=np.array(rewards, np.float32),
        invalid=np.array(invalid),
        trajectory_ids=ids,
        group_ids=ids,
        anchor_ids=np.arange(len(ids)),
        terminated=np.array(terminated),
        response_lengths=np.array(response_lengths),
    )


def test_token_columns_by_hand():
    """Two steps of 2 and 1 tokens, then another trajectory's of 3."""
    columns = token_columns(steps([1, 2, 4], [0, 0, 1], [False, True, False], [True, False, True], [2, 1, 3]))
    assert columns.rewards.tolist() == [0, 1, 2, 0, 0, 4]
    assert columns.trajectory_ids.tolist() == [0, 0, 0, 1, 1, 1]
    assert columns.terminated.tolist() == [False, False, True, False, False, False]
    assert columns.invalid.tolist() == [False, True, False, False, False, True]


def test_without_discount_the_last_values_of_tokens_agree_with_those_of_steps():
    """γ = λ = 1: the advantage of a response's first token is that of its step, if the value there is the step's."""
    lengths = np.array([2, 1, 3])
    rows = steps([1, 2, 4], [0, 0, 1], [False, True, True], [True, False, False], lengths)
    of_steps = np.array([0.5, -1.0, 2.0])
    first = np.cumsum(lengths) - lengths
    values = np.random.default_rng(0).normal(size=6)
    values[first] = of_steps
    columns = token_columns(rows)
    options = {"invalid_action_penalty": 0.5, "normalize": False}
    by_token = gae_advantages(columns.rewards, values, columns.trajectory_ids, invalid=columns.invalid, **options)
    by_step = gae_advantages(rows.rewards, of_steps, rows.trajectory_ids, invalid=rows.invalid, **options)
    np.testing.assert_allclose(by_token.total[first], by_step.total, atol=1e-6)


def test_explained_variance_by_hand():
    assert explained_variance([1, 3], [1, 3]) == 1
    assert explained_variance([5, 5], [1, 3]) == 0
    assert explained_variance([3, 1], [1, 3]) == -3
    assert explained_variance([1, 2], [2, 2]) == 0


def test_kl_penalties_are_sums_over_responses():
    rows = TokenRows.from_lists(
        [np.array([1])] * 2, [np.array([1, 2]), np.array([3])], [np.zeros(2), np.zeros(1)]
    ).with_response_columns(
        old_logp=np.log(np.array([0.8, 0.1, 0.5], np.float32)),
        reference_logp=np.log(np.array([0.4, 0.2, 0.5], np.float32)),
    )
    two = math.log(2)
    for estimator, expected in (
        ("k1", [two - two, 0]),
        ("k2", [two**2, 0]),
        ("k3", [(0.5 - 1 + two) + (2 - 1 - two), 0]),
    ):
        # Log-probs are float32.
        np.testing.assert_allclose(kl_penalties(rows, estimator=estimator), expected, atol=1e-6)


def test_the_coefficient_follows_its_schedule():
    assert coefficient_at(0.5, 1000) == 0.5
    assert [coefficient_at([[0, 1.0], [100, 0.0]], step) for step in (0, 50, 200)] == pytest.approx([1, 0.5, 0])


def test_what_is_scored_is_what_is_needed():
    assert GRPOConfig().scores() == GRPOConfig().training(kl_coeff=0.1).scores() == ()
    assert GRPOConfig().training(kl_in="reward").scores() == ()
    assert GRPOConfig().training(kl_in="reward", kl_coeff=0.1).scores() == ("old_logp", "reference_logp")
    assert PPOConfig().training(kl_coeff=0.1).scores() == ("values",)
    assert PPOConfig().training(kl_in="reward", kl_coeff=0.1).scores() == ("old_logp", "reference_logp", "values")


def ready(config):
    """`config` with everything that validation asks for."""
    config.environment("EZPoints").language_model(model_path=str(embedded_model_path("EZPoints")))
    return config.generation(max_prompt_tokens=160, max_response_tokens=32)


@pytest.mark.parametrize(
    ("training", "message"),
    [
        ({"lambda_": 1.5}, "lambda_=1.5 must be in"),
        ({"value_level": "row"}, "value_level='row' is unknown; choose 'step' or 'token'"),
        ({"advantage_normalization": "group"}, "advantage_normalization='group' is unknown"),
        ({"value_clip": 0.0}, "value_clip=0.0 must be greater than 0"),
        ({"value_clip": "0.5"}, "value_clip='0.5' must be a finite number, or None"),
        ({"value_loss_coeff": -1.0}, "value_loss_coeff=-1.0 must be greater than 0"),
        ({"critic_lr": -1e-5}, "critic_lr=-1e-05 must not be negative"),
        ({"critic_lr": "fast"}, "critic_lr='fast' must be a number or a schedule"),
        ({"bootstrap_truncated": 1}, "bootstrap_truncated=1 must be True or False"),
        ({"value_level": "token", "ratio": "sequence"}, "ratio='sequence' is one per response"),
        ({"advantage_norm": "mean"}, "advantage_norm='mean' does not apply to PPO"),
        ({"dynamic_sampling": True, "group_size": 2}, "dynamic_sampling=True does not apply to PPO"),
        ({"kl_in": "both"}, "kl_in='both' is unknown; choose one of 'loss', 'reward'"),
    ],
)
def test_a_wrong_config_value_is_named(training, message):
    ready(PPOConfig()).validate()
    with pytest.raises(ValueError, match=message):
        ready(PPOConfig()).training(**training).validate()
