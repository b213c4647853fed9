"""Which groups dynamic sampling keeps, and how many it asks for."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from rllib_gigpo.algorithms.gagpo.advantages import gagpo_advantages
from rllib_gigpo.algorithms.gigpo.advantages import gigpo_advantages
from rllib_gigpo.algorithms.group_policy.dynamic_sampling import (
    connected_apart,
    groups_with_signal,
    next_request,
    sample_until_full,
)
from rllib_gigpo.algorithms.group_policy.group_credit import has_signal
from rllib_gigpo.algorithms.grpo.advantages import grpo_advantages
from rllib_gigpo.algorithms.reinforce.advantages import reinforce_plus_plus_advantages
from rllib_gigpo.env_runners.runner_answers import Rollout
from rllib_gigpo.rows import StepRows

pytestmark = pytest.mark.unit


def episode(group_id: int) -> SingleAgentEpisode:
    """A step of reward 1 in a group."""
    made = SingleAgentEpisode()
    made.add_env_reset("start", {"group_id": group_id})
    made.add_env_step("end", "go", 1.0, {}, terminated=True)
    return made


class Tasks:
    """Rolls out groups of two with the ids 0, 1, …; those of `failing` fail, and are dropped."""

    def __init__(self, signal: set[int], failing: set[int] = frozenset()):
        self.signal, self.failing = signal, failing
        self.requests: list[int] = []

    def roll_out(self, num_groups: int) -> Rollout:
        first = sum(self.requests)
        self.requests.append(num_groups)
        ids = range(first, first + num_groups)
        failed = [i for i in ids if i in self.failing]
        return Rollout(
            [episode(i) for i in ids if i not in self.failing for _ in range(2)],
            Counter({"endings/env_failure": 2 * len(failed), "dropped_groups": len(failed)}),
            [{"round": len(self.requests)}],
            "no data folder" if failed else None,
        )

    def find_signal(self, episodes: list[SingleAgentEpisode]) -> set[int]:
        return {e.get_infos(0)["group_id"] for e in episodes} & self.signal

    def sample(self, num_groups: int, max_rounds: int = 10) -> tuple[list[int], dict[str, float], Rollout]:
        """Ids of the kept groups, one a trajectory, with the metrics and everything that was rolled out."""
        sample = sample_until_full(
            self.roll_out, self.find_signal, num_groups=num_groups, group_size=2, max_rounds=max_rounds
        )
        dropped = sample.rollout.counts["dropped_groups"]
        parts = ("num_groups", "groups_without_signal", "surplus_groups")
        assert sample.metrics["sampled_groups"] == sum(sample.metrics[part] for part in parts) + dropped
        return [e.get_infos(0)["group_id"] for e in sample.episodes], sample.metrics, sample.rollout


def test_one_round_is_enough_where_every_group_has_a_signal():
    tasks = Tasks({0, 1, 2})
    kept, metrics, _ = tasks.sample(3)
    assert (kept, tasks.requests) == ([0, 0, 1, 1, 2, 2], [3])
    assert metrics == {
        "num_groups": 3,
        "sampling_rounds": 1,
        "sampled_groups": 3,
        "groups_without_signal": 0,
        "surplus_groups": 0,
        "missing_groups": 0,
    }


def test_missing_groups_are_asked_for_at_the_share_found_so_far_and_the_latest_are_surplus():
    tasks = Tasks({0, 1, 4, 5, 6})
    kept, metrics, everything = tasks.sample(4)
    # Half of the four had a signal, so the two that are missing take four more; three of these have one.
    assert tasks.requests == [4, 4]
    assert kept == [0, 0, 1, 1, 4, 4, 5, 5]
    assert (metrics["groups_without_signal"], metrics["surplus_groups"], metrics["missing_groups"]) == (3, 1, 0)
    assert [e.get_infos(0)["group_id"] for e in everything.episodes[::2]] == list(range(8))
    assert everything.metrics == [{"round": 1}, {"round": 2}]


def test_at_the_bound_what_there_is_is_kept_and_the_rest_reported_missing():
    tasks = Tasks({5})
    kept, metrics, _ = tasks.sample(3, max_rounds=2)
    assert (kept, tasks.requests) == ([5, 5], [3, 3])
    assert (metrics["sampling_rounds"], metrics["missing_groups"], metrics["groups_without_signal"]) == (2, 2, 5)
    kept, metrics, everything = Tasks(set()).sample(3, max_rounds=2)
    assert (kept, metrics["num_groups"], metrics["missing_groups"]) == ([], 0, 3)
    assert len(everything.episodes) == 12


def test_groups_that_fail_are_replaced_and_end_the_run_only_where_nothing_has_finished():
    tasks = Tasks({0, 1, 3, 4}, failing={2, 5})
    kept, _, everything = tasks.sample(4)
    # Three of four are found, so the missing one takes two more, 4 and 5.
    assert (kept, tasks.requests) == ([0, 0, 1, 1, 3, 3, 4, 4], [4, 2])
    assert everything.counts == {"endings/env_failure": 4, "dropped_groups": 2}
    alone = Tasks({0, 1}, failing={2, 3, 4})
    assert alone.sample(3, max_rounds=2)[1]["missing_groups"] == 1, "a later round in which everything fails"
    with pytest.raises(RuntimeError, match="all 6 trajectories of a rollout failed; the last cause: no data folder"):
        Tasks(set(), failing=set(range(9))).sample(3)


def test_a_service_that_worked_before_may_be_away_for_a_whole_rollout():
    for counts in ({"endings/service_failure": 4}, {"endings/service_failure": 3, "endings/env_failure": 1}):
        away = Rollout([], Counter(counts), [], "nobody at home")
        away.check_any_finished(4, services_worked=True)
        with pytest.raises(
            RuntimeError, match="all 4 trajectories of a rollout failed; the last cause: nobody at home"
        ):
            away.check_any_finished(4)
    with pytest.raises(RuntimeError, match="all 4 trajectories"):
        Rollout([], Counter({"endings/env_failure": 4}), []).check_any_finished(4, services_worked=True)


def test_a_request_is_at_least_what_is_missing_and_at_most_an_iteration():
    assert next_request(16, found=0, sampled=0) == 16
    assert next_request(16, found=0, sampled=48) == 16
    assert next_request(16, found=15, sampled=15) == 1
    assert next_request(16, found=12, sampled=16) == 6  # 4 · 16 / 12 = 5.3
    assert next_request(16, found=1, sampled=32) == 16
    requests = [next_request(n, found=f, sampled=s) for n in range(1, 9) for f in range(n) for s in range(f, 30)]
    missing = [n - f for n in range(1, 9) for f in range(n) for s in range(f, 30)]
    assert all(1 <= least <= request <= 8 for least, request in zip(missing, requests, strict=True))


def rows_of(*groups: list[list[tuple[str, float]]]) -> StepRows:
    """Rows of groups of trajectories of (anchor state, reward) steps; groups are numbered 10, 11, …"""
    steps = [
        (10 + g, (g, m), state, reward)
        for g, group in enumerate(groups)
        for m, trajectory in enumerate(group)
        for state, reward in trajectory
    ]
    group_ids, trajectories, states, rewards = zip(*steps, strict=True)
    trajectory_ids = [sorted(set(trajectories)).index(t) for t in trajectories]
    anchors = [sorted({*zip(group_ids, states, strict=True)}).index(a) for a in zip(group_ids, states, strict=True)]
    return StepRows(
        rewards=np.array(rewards, np.float32),
        invalid=np.zeros(len(steps), bool),
        trajectory_ids=np.array(trajectory_ids),
        group_ids=np.array(group_ids),
        anchor_ids=np.array(anchors),
        terminated=np.zeros(len(steps), bool),
        response_lengths=np.ones(len(steps), np.int64),
    )


SLOW_AND_FAST_WINS = [[("hall", 0.0), ("hall", 10.0)], [("hall", 10.0)]]
EQUAL_WINS = [[("hall", 10.0)], [("hall", 10.0)]]
EQUAL_FAILURES = [[("hall", 0.0), ("cellar", 0.0)], [("hall", 0.0)]]
WIN_AND_FAILURE = [[("hall", 10.0)], [("hall", 0.0)]]
ROWS = rows_of(SLOW_AND_FAST_WINS, EQUAL_WINS, EQUAL_FAILURES, WIN_AND_FAILURE)

FUNCTIONS: dict[str, Any] = {
    "GiGPO": lambda r: gigpo_advantages(r.rewards, r.trajectory_ids, r.group_ids, r.anchor_ids).total,
    "GAGPO": lambda r: gagpo_advantages(r.rewards, r.trajectory_ids, r.group_ids, r.anchor_ids).total,
    "GAGPO, batch": lambda r: (
        gagpo_advantages(r.rewards, r.trajectory_ids, r.group_ids, r.anchor_ids, normalize_over="batch").total
    ),
    "GRPO": lambda r: grpo_advantages(r.rewards, r.trajectory_ids, r.group_ids).total,
    "REINFORCE++": lambda r: reinforce_plus_plus_advantages(r.rewards, r.trajectory_ids, r.group_ids).total,
}


@pytest.mark.parametrize(
    ("algorithm", "kept"),
    [
        ("GiGPO", {10, 13}),
        ("GAGPO", {10, 13}),
        ("GAGPO, batch", {10, 13}),
        ("GRPO", {13}),
        ("REINFORCE++", {13}),
    ],
)
def test_the_signal_is_in_the_advantages_of_a_group_alone(algorithm, kept):
    assert groups_with_signal(ROWS, FUNCTIONS[algorithm]) == kept


def test_over_a_batch_every_group_seems_to_have_a_signal():
    advantages = FUNCTIONS["REINFORCE++"](ROWS)
    assert has_signal(advantages, ROWS.group_ids).all()


class DoublesRewards(ConnectorV2):
    """A user's piece that changes episodes, counts them, and logs."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = {"episodes": 0}

    def __call__(self, *, episodes: list, batch: dict, metrics: Any, **kwargs: Any) -> dict:
        self.seen["episodes"] += len(episodes)
        metrics.log_value("seen", len(episodes))
        for e in episodes:
            e.rewards[:] = [2 * reward for reward in e.rewards]
        return {"returns": [e.get_return() for e in episodes]}

    def get_state(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        return self.seen

    def set_state(self, state: dict[str, Any]) -> None:
        self.seen = state


def test_looking_for_a_signal_leaves_episodes_and_connectors_as_they_are():
    piece, episodes = DoublesRewards(), [episode(0), episode(1)]
    assert connected_apart(piece, episodes) == {"returns": [2.0, 2.0]}
    assert piece.seen == {"episodes": 0}
    assert [e.get_return() for e in episodes] == [1.0, 1.0]
