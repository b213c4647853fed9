"""PPO as a whole, and the KL in the reward of any algorithm, in one process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from rllib_gigpo.algorithms.gigpo.gigpo import GiGPOConfig
from rllib_gigpo.algorithms.ppo.advantages import gae_advantages, token_columns
from rllib_gigpo.algorithms.ppo.ppo import PPO, PPOConfig
from rllib_gigpo.cli.main import app
from rllib_gigpo.rl_modules.model_directory import validate_model_directory
from rllib_gigpo.rows import StepRows, TokenRows
from tests.algorithm_cases import largest_difference, small_config, weights_of

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("ray_cluster")]


def ppo_config(**training: Any) -> Any:
    settings = {"group_size": 1, "groups_per_iteration": 24, "critic_lr": 1e-2, **training}
    return small_config(PPOConfig, **settings).generation(max_response_tokens=16)


def record_credit(algo: Any) -> list[tuple[StepRows, TokenRows, TokenRows]]:
    """The step rows and scored token rows that credit is assigned from, and the rows that are learned from, of every
    iteration from now on."""
    recorded: list = []
    with_credit = algo.with_credit

    def record(step_rows: StepRows, token_rows: TokenRows) -> TokenRows:
        rows = with_credit(step_rows, token_rows)
        recorded.append((step_rows, token_rows, rows))
        return rows

    algo.with_credit = record
    return recorded


def critic_of(algo: Any) -> dict[str, np.ndarray]:
    return {name: array.copy() for name, array in algo.learner_group.get_weights()["default_policy_critic"].items()}


@pytest.mark.parametrize("value_level", ["step", "token"])
def test_credit_comes_from_the_critics_values(value_level: str) -> None:
    algo = ppo_config(value_level=value_level, gamma=0.9, lambda_=0.8, bootstrap_truncated=True).build_algo()
    recorded = record_credit(algo)
    first, second = algo.train(), algo.train()
    assert first["rollout_groups"]["value_mean"] == 0, "the critic starts from 0"
    assert second["rollout_groups"]["value_mean"] != 0
    assert second["env_runners"]["dropped_groups"] == 0, "one trajectory is enough for a group"
    assert second["learners"]["default_policy"]["value_loss"] > 0

    steps, scored, rows = recorded[1]
    lengths = scored.response_lengths
    start = np.cumsum(lengths) - lengths
    options = {"gamma": 0.9, "lambda_": 0.8}
    if value_level == "step":
        expected = gae_advantages(
            steps.rewards,
            scored.values[start],
            steps.trajectory_ids,
            terminated=steps.terminated,
            invalid=steps.invalid,
            **options,
        )
        assert rows.token_advantages is None
        np.testing.assert_array_equal(rows.advantages, expected.total)
        np.testing.assert_array_equal(rows.value_targets, np.repeat(expected.returns, lengths))
    else:
        columns = token_columns(steps)
        expected = gae_advantages(
            columns.rewards,
            scored.values,
            columns.trajectory_ids,
            terminated=columns.terminated,
            invalid=columns.invalid,
            **options,
        )
        np.testing.assert_array_equal(rows.token_advantages, expected.total)
        np.testing.assert_array_equal(rows.value_targets, expected.returns)
        np.testing.assert_allclose(rows.advantages[0], expected.total[: lengths[0]].mean(), rtol=1e-5)
    algo.stop()


def test_a_checkpoint_continues_with_the_critic_and_its_export_is_the_policy(tmp_path: Path) -> None:
    algo = ppo_config().build_algo()
    algo.train()
    path = algo.save_to_path(tmp_path / "checkpoint")
    algo.train()
    expected, expected_critic = weights_of(algo), critic_of(algo)
    algo.restore_from_path(path)
    assert largest_difference(expected_critic, critic_of(algo)) > 0
    algo.train()
    assert largest_difference(expected_critic, critic_of(algo)) == 0
    algo.stop()
    restored = PPO.from_checkpoint(path)
    restored.train()
    assert largest_difference(expected, weights_of(restored)) == 0
    assert largest_difference(expected_critic, critic_of(restored)) == 0
    restored.stop()

    done = CliRunner().invoke(app, ["export", str(path), str(tmp_path / "export")])
    assert done.exit_code == 0, done.output
    validate_model_directory(tmp_path / "export")
    assert not list((tmp_path / "export").rglob("*critic*"))


def test_the_critic_stays_with_the_learners() -> None:
    algo = ppo_config(groups_per_iteration=2).language_model(lora_rank=2).build_algo()
    assert set(algo.env_runner.module.get_state()) == set(weights_of(algo))
    result = algo.train()
    assert result["weight_delivery"]["bytes"] == sum(array.nbytes for array in weights_of(algo).values())
    algo.stop()


def test_a_kl_penalty_goes_into_the_rewards_and_not_into_the_reported_returns() -> None:
    algo = small_config(GiGPOConfig, kl_coeff=0.5, kl_in="reward", kl_estimator="k1", lr=3e-3).build_algo()
    recorded = record_credit(algo)
    first, second = algo.train(), algo.train()
    # The policy starts as its reference; what is left is float32 rounding of two forward passes.
    assert first["rollout_groups"]["kl_reward_penalty_mean"] == pytest.approx(0, abs=1e-5)
    assert abs(second["rollout_groups"]["kl_reward_penalty_mean"]) > 1e-3

    steps, scored, _ = recorded[1]
    row = np.repeat(np.arange(len(scored)), scored.response_lengths)
    penalties = 0.5 * np.bincount(row, weights=scored.old_logp - scored.reference_logp)
    without = steps.rewards + penalties
    # EZPoints pays 10 for a win, and nothing else.
    np.testing.assert_allclose(without, np.where(without > 5, 10, 0), atol=1e-4)
    returns = np.bincount(steps.trajectory_ids, weights=np.where(without > 5, 10, 0))
    assert second["env_runners"]["episode_return_mean"] == pytest.approx(returns.mean())
    assert second["rollout_groups"]["kl_reward_penalty_mean"] == pytest.approx(penalties.mean(), rel=1e-4)
    algo.stop()


def test_old_log_probs_for_the_penalty_are_the_learners_own() -> None:
    algo = small_config(GiGPOConfig, kl_coeff=0.5, kl_in="reward").build_algo()
    recorded = record_credit(algo)
    learner = algo.learner_group._learner
    compute = learner.compute_log_probs
    calls: list[int] = []
    learner.compute_log_probs = lambda rows, *args, **kwargs: calls.append(len(rows)) or compute(rows, *args, **kwargs)
    algo.train()
    ((_, scored, _),) = recorded
    # Once in the scoring stage, with all rows; the other is the probe of the weight delivery.
    assert calls == [len(scored), 1]
    assert (scored.old_logp != scored.rollout_logp).any()
    np.testing.assert_allclose(scored.old_logp, scored.rollout_logp, atol=1e-4)
    algo.stop()
