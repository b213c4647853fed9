"""Rows of several agents and modules: never compared with another agent's, never trained by another module."""

from collections import Counter

import numpy as np
import pytest
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from rllib_gigpo.columns import ENDING, ENV_STEPS, IS_ACTION_VALID, PROMPT_IDS, RESPONSE_IDS, ROLLOUT_LOGP, WON
from rllib_gigpo.columns import WEIGHTS_VERSION as VERSION
from rllib_gigpo.connectors.anchor_states import ANCHOR_IDS, AnchorStateGrouping
from rllib_gigpo.connectors.credit_groups import credit_group_id
from rllib_gigpo.connectors.token_rows import STEP_ROWS, TOKEN_ROWS, TokenRowPacking
from rllib_gigpo.env_runners.agent_metrics import silent_trajectories
from rllib_gigpo.env_runners.rollout_metrics import rollout_metrics
from rllib_gigpo.env_runners.silence import SILENT_ITERATIONS_ALLOWED, SilenceWatch
from rllib_gigpo.rows import TokenRows

pytestmark = pytest.mark.unit


def episode(group: int, member: int, agent: str | None, module: str | None, rewards: list[float]) -> SingleAgentEpisode:
    """Every agent and member sees the same texts; the first prompt token tells the agent."""
    identity = None if agent is None else f"{group}_{member}"
    found = SingleAgentEpisode(agent_id=agent, module_id=module, multi_agent_episode_id=identity)
    found.add_env_reset("state 0", {"group_id": group, "entered_at": 0})
    for t, reward in enumerate(rewards):
        outputs = {
            PROMPT_IDS: np.array([10 if agent == "ann" else 20]),
            RESPONSE_IDS: np.array([t + 1]),
            ROLLOUT_LOGP: np.zeros(1, np.float32),
            VERSION: 0,
        }
        info = {IS_ACTION_VALID: True, WON: False}
        found.add_env_step(f"state {t + 1}", "act", reward, info, extra_model_outputs=outputs)
    found.is_terminated = True
    found.get_infos(-1).update({ENDING: "won", WON: True, ENV_STEPS: 5})
    return found


def packed(episodes: list[SingleAgentEpisode]) -> dict:
    batch = AnchorStateGrouping()(rl_module=None, batch={}, episodes=episodes)
    return TokenRowPacking()(rl_module=None, batch=batch, episodes=episodes)


def two_agents(module_of_bob: str = "BOB") -> list[SingleAgentEpisode]:
    return [
        one
        for group in (0, 1)
        for member in (0, 1)
        for one in (
            episode(group, member, "ann", "ANN", [1.0, 0.0]),
            episode(group, member, "bob", module_of_bob, [2.0, 0.0]),
        )
    ]


@pytest.mark.parametrize("module_of_bob", ["BOB", "ANN"])
def test_groups_and_anchor_states_are_never_shared_between_agents(module_of_bob: str) -> None:
    episodes = two_agents(module_of_bob)
    batch = packed(episodes)
    rows = batch[STEP_ROWS]
    agents = np.repeat([one.agent_id for one in episodes], 2)
    for ids in (rows.group_ids, rows.anchor_ids, batch[ANCHOR_IDS], rows.trajectory_ids):
        for value in np.unique(ids):
            assert len(set(agents[ids == value])) == 1
    assert len(np.unique(rows.group_ids)) == 4
    assert len(np.unique(rows.trajectory_ids)) == 8
    # Of each agent, both members of a group saw the same two states.
    assert sorted(Counter(rows.anchor_ids.tolist()).values()) == [2] * 8


def test_an_agent_that_two_modules_play_is_compared_per_module() -> None:
    ids = {credit_group_id(episode(0, member, "ann", module, [0.0])) for member, module in ((0, "A"), (1, "B"))}
    assert len(ids) == 2


def test_ids_of_a_credit_group_are_the_same_in_every_batch_and_plain_without_agents() -> None:
    assert credit_group_id(episode(3, 0, "ann", "ANN", [0.0])) == credit_group_id(episode(3, 1, "ann", "ANN", [1.0]))
    assert credit_group_id(episode(3, 0, None, None, [0.0])) == 3


def test_rows_go_to_the_module_that_sampled_them() -> None:
    rows = packed(two_agents())[TOKEN_ROWS]
    of_module = rows.by_module("default_policy")
    assert {name: (len(own), set(own.token_ids[::2].tolist())) for name, own in of_module.items()} == {
        "ANN": (8, {10}),
        "BOB": (8, {20}),
    }
    assert all(own.module_ids is None for own in of_module.values())
    chosen = TokenRows.concat([rows.take(np.array([0, 2])), rows.take(np.array([3]))])
    assert chosen.module_ids.tolist() == ["ANN", "BOB", "BOB"]


def test_rows_of_a_single_agent_are_all_of_the_only_module() -> None:
    rows = packed([episode(0, member, None, None, [1.0]) for member in (0, 1)])[TOKEN_ROWS]
    assert rows.module_ids is None
    assert rows.by_module("default_policy") == {"default_policy": rows}


def test_metrics_count_trajectories_once_and_agents_apart() -> None:
    episodes = [*two_agents(), episode(2, 0, "ann", "ANN", [4.0])]
    counts = Counter({silent_trajectories("bob"): 1})
    metrics = rollout_metrics(episodes, counts)
    assert metrics["success_rate"] == 1.0
    assert metrics["episode_len_mean"] == 5.0
    assert metrics["episode_return_mean"] == pytest.approx((4 * 3.0 + 4.0) / 5)
    assert metrics["group_size_mean"] == pytest.approx(5 / 3)
    assert (metrics["agents/ann/steps"], metrics["agents/bob/steps"]) == (9.0, 8.0)
    assert (metrics["agents/ann/return_mean"], metrics["agents/bob/return_mean"]) == (pytest.approx(8 / 5), 2.0)
    assert metrics["agents/bob/silent_trajectories"] == 1.0 and metrics["agents/ann/silent_trajectories"] == 0.0
    assert metrics["modules/ANN/steps"] == 9.0
    assert metrics["modules/ANN/return_mean"] == metrics["agents/ann/return_mean"]


def test_an_agent_that_never_acts_is_loud(caplog: pytest.LogCaptureFixture) -> None:
    silent = [episode(0, member, "ann", "ANN", [1.0]) for member in (0, 1)]
    counts = Counter({silent_trajectories("bob"): 2})
    assert rollout_metrics(silent, counts)["agents/bob/steps"] == 0.0
    watch = SilenceWatch(["ANN", "BOB"], may_learn=lambda module_id: True)
    watch.look_at(silent, counts)
    assert "agent 'bob' acted in none of the 2 trajectories" in caplog.text
    assert "module 'BOB' acted for no agent" in caplog.text
    caplog.clear()
    watch.look_at(two_agents(), Counter())
    assert not caplog.text


def test_a_module_without_an_act_for_too_long_is_an_error_if_it_is_to_learn() -> None:
    silent = [e for e in two_agents() if e.agent_id == "ann"]
    watch = SilenceWatch(["ANN", "BOB"], may_learn=lambda module_id: True)
    for _ in range(2):
        for _ in range(SILENT_ITERATIONS_ALLOWED):
            watch.look_at(silent, Counter())
        watch.look_at(two_agents(), Counter())
    with pytest.raises(RuntimeError, match="module 'BOB' acted for no agent in 10 iterations on end"):
        for _ in range(SILENT_ITERATIONS_ALLOWED + 1):
            watch.look_at(silent, Counter())
    only_ann_learns = SilenceWatch(["ANN", "BOB"], may_learn=lambda module_id: module_id == "ANN")
    for _ in range(SILENT_ITERATIONS_ALLOWED + 1):
        only_ann_learns.look_at(silent, Counter())
