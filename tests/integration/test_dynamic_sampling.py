"""Dynamic sampling within an Algorithm: what is trained on, what is reported, and that nothing gets lost."""

from __future__ import annotations

from collections import Counter
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import pytest
from ray.rllib.connectors.connector_v2 import ConnectorV2

from rllib_gigpo.agent_formats import ParsedResponse
from rllib_gigpo.algorithms.dapo import DAPOConfig
from rllib_gigpo.algorithms.gagpo import GAGPOConfig
from rllib_gigpo.algorithms.gigpo import GiGPOConfig
from rllib_gigpo.algorithms.grpo import GRPOConfig
from rllib_gigpo.algorithms.reinforce import REINFORCEPlusPlusConfig
from rllib_gigpo.columns import GROUP_ID
from rllib_gigpo.rows import TokenRows
from tests.algorithm_cases import largest_difference, small_config, weights_of

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("ray_cluster")]


class Outcomes(gym.Env):
    """The task says how the members of a group end: all "win", all "lose", "mixed": every second wins, or "slow": all
    win, every second one a step later, from the same state. A win is worth 10."""

    started: ClassVar[Counter[int]] = Counter()

    def __init__(self, context: Any = None):
        self.observation_space = self.action_space = gym.spaces.Text(1000)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        second = Outcomes.started[seed] % 2 == 1
        Outcomes.started[seed] += 1
        task = options["task"]
        self.wins = task in ("win", "slow") or (task == "mixed" and second)
        self.steps_left = 2 if task == "slow" and second else 1
        return "a door", {}

    def step(self, action: str) -> Any:
        self.steps_left -= 1
        done = self.steps_left == 0
        return "a door", 10.0 if done and self.wins else 0.0, done, False, {"won": done and self.wins}


def any_action(text: str) -> ParsedResponse:
    return ParsedResponse("go", True, None)


def outcomes_config(config_class: type, tasks: list[str], **training: Any) -> Any:
    """3 groups of 2 per iteration, of responses of 4 tokens."""
    keys = {"dynamic_sampling": True, "group_size": 2, "groups_per_iteration": 3, "num_minibatches": 1, **training}
    return (
        small_config(config_class, **keys)
        .environment(Outcomes, tasks=tasks)
        .agent_format(prompt_template="{{ observation }}", response_parser=any_action)
        .generation(max_response_tokens=4)
    )


def record_trained(algo: Any) -> list[TokenRows]:
    """The rows of every update from now on."""
    updates: list[TokenRows] = []
    update = algo._update
    algo._update = lambda rows: updates.append(rows) or update(rows)
    return updates


def record_rollouts(algo: Any) -> list[list[tuple[int, str]]]:
    """(group id, task) of the groups of every rollout from now on."""
    rollouts: list[list[tuple[int, str]]] = []
    roll_out = algo._runners.roll_out

    def recorded(plan: Any) -> Any:
        rollouts.append([(group.group_id, group.task) for group in plan.groups])
        return roll_out(plan)

    algo._runners.roll_out = recorded
    return rollouts


def record_credited(algo: Any) -> list[list[int]]:
    """Group ids of the episodes that credit is assigned to, for every iteration from now on."""
    credited: list[list[int]] = []
    assign = algo._assign_credit
    algo._assign_credit = lambda episodes: (
        credited.append([e.get_infos(0)[GROUP_ID] for e in episodes]) or assign(episodes)
    )
    return credited


def test_rounds_go_on_until_the_iteration_is_full_and_everything_is_counted():
    tasks = ["mixed", "win", "lose", "lose", "mixed", "lose", "win", "mixed"]
    algo = outcomes_config(GRPOConfig, tasks).build_algo()
    rollouts, credited, trained = record_rollouts(algo), record_credited(algo), record_trained(algo)
    results = [algo.train() for _ in range(2)]
    algo.stop()

    groups = [group for rollout in rollouts for group in rollout]
    assert [group_id for group_id, _ in groups] == list(range(algo._task_cursor)), "every round moves the cursor"
    rounds = [int(r["rollout_groups"]["sampling_rounds"]) for r in results]
    assert max(rounds) > 1
    assert sum(rounds) == len(rollouts)
    lifetime = 0
    for number, result in enumerate(results):
        own = [g for rollout in rollouts[sum(rounds[:number]) : sum(rounds[: number + 1])] for g in rollout]
        mixed = [group_id for group_id, task in own if task == "mixed"]
        assert credited[number] == np.repeat(mixed[:3], 2).tolist()
        assert len(trained[number]) == 6
        assert trained[number].in_loss.all()

        metrics, env_runners = result["rollout_groups"], result["env_runners"]
        assert metrics["num_groups"] == 3
        assert metrics["sampled_groups"] == len(own)
        assert metrics["groups_without_signal"] == len(own) - len(mixed)
        assert metrics["surplus_groups"] == len(mixed) - 3
        assert metrics["missing_groups"] == metrics["zero_signal_share"] == 0
        # Over all rounds, and not over what was kept or the last round alone.
        wins = sum({"mixed": 1, "win": 2, "lose": 0}[task] for _, task in own)
        assert env_runners["success_rate"] == pytest.approx(wins / (2 * len(own)))
        assert env_runners["endings"]["won"] == wins
        assert env_runners["endings"]["lost"] == 2 * len(own) - wins
        assert env_runners["num_episodes"] == env_runners["num_env_steps_sampled"] == 2 * len(own)
        lifetime += 2 * len(own)
        assert env_runners["num_env_steps_sampled_lifetime"] == env_runners["num_episodes_lifetime"] == lifetime


def test_at_the_bound_there_is_an_update_on_what_was_found_or_none():
    algo = outcomes_config(GRPOConfig, ["mixed", "lose", "lose", "lose", "lose"], max_sampling_rounds=2).build_algo()
    trained = record_trained(algo)
    # Tasks are dealt whole before one comes again: six groups hold one or two that are mixed.
    metrics = algo.train()["rollout_groups"]
    assert metrics["sampling_rounds"] == 2
    assert metrics["num_groups"] == 3 - metrics["missing_groups"] == len(trained[0]) / 2 < 3
    algo.stop()

    algo = outcomes_config(GRPOConfig, ["lose", "win"], max_sampling_rounds=2).build_algo()
    before = weights_of(algo)
    result = algo.train()
    assert largest_difference(before, weights_of(algo)) == 0
    assert algo._task_cursor == 6
    assert result["env_runners"]["success_rate"] == 0.5
    assert (result["rollout_groups"]["num_groups"], result["rollout_groups"]["missing_groups"]) == (0, 3)
    assert result["rollout_groups"]["groups_without_signal"] == 6
    algo.stop()


@pytest.mark.parametrize(
    ("config_class", "kept"), [(GiGPOConfig, "slow"), (GAGPOConfig, "slow"), (GRPOConfig, None)], ids=str
)
def test_a_group_in_which_all_win_is_kept_for_what_its_steps_tell_apart(config_class, kept):
    algo = outcomes_config(config_class, ["slow", "win", "lose", "lose"], max_sampling_rounds=3).build_algo()
    rollouts, credited = record_rollouts(algo), record_credited(algo)
    metrics = algo.train()["rollout_groups"]
    algo.stop()
    expected = [group_id for rollout in rollouts for group_id, task in rollout if task == kept][:3]
    assert metrics["num_groups"] == len(expected)
    assert credited == ([np.repeat(expected, 2).tolist()] if expected else [])
    assert (len(expected) > 0) == (kept is not None)
    if kept is not None:
        # Of the rows that are trained on: three steps of a group, all in the one state.
        assert metrics["anchor_group_size_mean"] == 3


def test_what_is_normalized_over_the_batch_is_so_over_the_groups_that_are_kept():
    algo = outcomes_config(REINFORCEPlusPlusConfig, ["mixed", "win", "lose"]).build_algo()
    trained = record_trained(algo)
    metrics = algo.train()["rollout_groups"]
    algo.stop()
    # Three groups with a win and a failure each: mean 0, Bessel's standard deviation.
    assert (metrics["num_groups"], metrics["sampling_rounds"] > 1) == (3, True)
    np.testing.assert_allclose(np.abs(trained[0].advantages), np.sqrt(5 / 6), rtol=1e-5)
    assert trained[0].advantages.sum() == pytest.approx(0, abs=1e-5)


class HalvesRewards(ConnectorV2):
    """A user's piece that changes rewards, counts episodes and logs."""

    seen = 0

    def __call__(self, *, episodes: list, batch: dict, metrics: Any, **kwargs: Any) -> dict:
        self.seen += len(episodes)
        metrics.log_value("pieces", len(episodes), reduce="sum")
        for episode in episodes:
            episode.rewards[:] = [reward / 2 for reward in episode.rewards]
        return batch

    def get_state(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        return {"seen": self.seen}

    def set_state(self, state: dict[str, Any]) -> None:
        self.seen = state["seen"]


def test_a_users_piece_works_once_on_the_groups_that_are_trained_on():
    config = outcomes_config(GRPOConfig, ["mixed", "win", "lose"], advantage_norm="mean")
    algo = config.group_connector(HalvesRewards).build_algo()
    trained = record_trained(algo)
    result = algo.train()
    assert result["rollout_groups"]["sampling_rounds"] > 1
    assert algo._group_connector.connectors[0].seen == result["pieces"] == 6
    assert np.abs(trained[0].advantages).tolist() == [2.5] * 6
    assert result["env_runners"]["episode_return_max"] == 10
    algo.stop()


def test_restore_and_continue_equals_uninterrupted(tmp_path):
    algo = small_config(DAPOConfig, invalid_action_penalty=0.0).generation(max_response_tokens=20).build_algo()
    rounds = [algo.train()["rollout_groups"]["sampling_rounds"]]
    path = algo.save_to_path(str(tmp_path / "checkpoint"))
    rounds.append(algo.train()["rollout_groups"]["sampling_rounds"])
    expected, cursor = weights_of(algo), algo._task_cursor
    assert max(rounds) > 1
    algo.stop()
    restored = type(algo).from_checkpoint(path)
    restored.train()
    assert restored._task_cursor == cursor
    assert largest_difference(expected, weights_of(restored)) <= 1e-6
    restored.stop()


@pytest.mark.parametrize("buffer_tokens", [16, 0])
def test_dapo_takes_the_penalty_from_the_reward_of_a_long_response_and_not_from_episode_returns(buffer_tokens):
    config = outcomes_config(DAPOConfig, ["mixed"], overlong_penalty_buffer=buffer_tokens, overlong_penalty=2.0)
    algo = config.training(advantage_norm="mean").generation(max_response_tokens=24).build_algo()
    trained = record_trained(algo)
    result = algo.train()
    algo.stop()
    lengths = trained[0].response_lengths.reshape(3, 2)
    assert np.ptp(lengths, axis=1).max() > 0
    penalties = 2.0 * np.maximum(lengths - 8, 0) / 16 if buffer_tokens else np.zeros((3, 2))
    rewards = np.array([0.0, 10.0]) - penalties
    expected = rewards - rewards.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(trained[0].advantages.reshape(3, 2), expected, atol=1e-5)
    assert result["rollout_groups"]["overlong_share"] == np.mean(penalties > 0)
    assert result["rollout_groups"]["overlong_penalty_mean"] == pytest.approx(penalties.mean())
    assert result["env_runners"]["episode_return_mean"] == 5
