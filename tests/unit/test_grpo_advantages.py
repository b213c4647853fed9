"""GRPO's advantages against hand-computed numbers, and their invariances."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rllib_gigpo.algorithms.grpo.advantages import grpo_advantages

pytestmark = pytest.mark.unit

# Group 5: trajectories of 2, 1 and 1 steps with totals 10, 0, 2; group 3: two losers, one of them invalid once.
REWARDS = [4, 6, 0, 2, 0, 0, 0]
TRAJECTORIES = [0, 0, 1, 2, 7, 7, 8]
GROUPS = [5, 5, 5, 5, 3, 3, 3]
INVALID = [False, False, False, False, True, False, False]


def test_numbers_by_hand_without_std():
    advantages = grpo_advantages(REWARDS, TRAJECTORIES, GROUPS, norm="mean", invalid=INVALID)
    np.testing.assert_allclose(advantages.total, [6, 6, -4, -2, -0.05, -0.05, 0.05], atol=1e-6)
    assert advantages.total.dtype == np.float32
    assert np.array_equal(advantages.total, advantages.episode)


def test_numbers_by_hand_with_std():
    """Totals 10, 0, 2: mean 4, Bessel std √(56 / 2)."""
    advantages = grpo_advantages(REWARDS, TRAJECTORIES, GROUPS, invalid=INVALID)
    np.testing.assert_allclose(advantages.total[:4], np.array([6, 6, -4, -2]) / np.sqrt(28), atol=1e-6)
    # ε is not small against a std of 0.0707.
    np.testing.assert_allclose(
        advantages.total[4:], np.array([-0.05, -0.05, 0.05]) / (0.1 / np.sqrt(2) + 1e-6), atol=1e-6
    )


def test_verl_agent_numbers_by_hand():
    """Row scores 10, 10, 0, 2: mean 5.5. And −0.1, 0, 0: mean −1/30."""
    advantages = grpo_advantages(REWARDS, TRAJECTORIES, GROUPS, norm="mean", invalid=INVALID, reference="verl-agent")
    np.testing.assert_allclose(advantages.total, [4.5, 4.5, -5.5, -3.5, -0.2 / 3, 0.1 / 3, 0.1 / 3], atol=1e-6)


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.integers(-20, 20), min_size=2, max_size=8).filter(lambda scores: len(set(scores)) > 1),
    st.integers(-50, 50),
    st.sampled_from([0.5, 2.0, 10.0]),
)
def test_a_constant_on_every_trajectory_changes_nothing_and_a_scale_changes_nothing_under_std(scores, shift, scale):
    ids, group = np.arange(len(scores)), np.zeros(len(scores), int)
    scores = np.array(scores, float)
    plain = grpo_advantages(scores, ids, group).total
    np.testing.assert_allclose(grpo_advantages(scores + shift, ids, group).total, plain, atol=1e-5)
    # Only the ε of 1e-6 beside a std of at least 0.35·scale is not scaled.
    np.testing.assert_allclose(grpo_advantages(scores * scale, ids, group).total, plain, atol=3e-5)


@pytest.mark.parametrize("reference", ["paper", "verl-agent"])
def test_equal_scores_give_exactly_zero_whatever_the_lengths(reference):
    rewards = [0.1, 0.1, 0.1, 0.3, 0.15, 0.15]  # 0.1 + 0.1 + 0.1 is not 0.3 in floating point
    advantages = grpo_advantages(rewards, [0, 0, 0, 1, 2, 2], [0] * 6, reference=reference)
    assert advantages.total.tolist() == [0.0] * 6


def test_wrong_input_is_named():
    with pytest.raises(ValueError, match=r"trajectory_ids\[2\] is 0"):
        grpo_advantages([1, 2, 3], [0, 1, 0], [0, 0, 0])
    with pytest.raises(ValueError, match="norm is 'none'"):
        grpo_advantages([1, 2, 3], [0, 1, 2], [0, 0, 0], norm="none")
