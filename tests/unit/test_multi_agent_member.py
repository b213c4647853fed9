"""A multi-agent trajectory: who acts when, whose act a reward belongs to, and how each agent's episode ends."""

from typing import Any

import pytest

from rllib_gigpo.columns import ENDING, ENTERED_AT, ENV_STEPS, GROUP_ID, IS_ACTION_VALID, WON
from rllib_gigpo.env_runners.environment_answers import EnvironmentAnswerError
from rllib_gigpo.env_runners.multi_agent_answers import check_multi_agent_reset, check_multi_agent_step
from rllib_gigpo.env_runners.multi_agent_member import Act, MultiAgentMember
from rllib_gigpo.env_runners.policy_mapping import PolicyMapping
from rllib_gigpo.env_runners.rollout_plan import GroupPlan
from rllib_gigpo.images import ImageStore
from rllib_gigpo.seeds import derive_seed

pytestmark = pytest.mark.unit

AGENTS = ["ann", "bob"]


def started(observations: dict[str, str], infos: dict | None = None, mapping: Any = None) -> MultiAgentMember:
    member = MultiAgentMember(
        GroupPlan(7, task="t", env_seed=0, sampling_seed=0),
        2,
        env=None,
        images=ImageStore(),
        start=check_multi_agent_reset((observations, infos or {}), AGENTS),
        possible_agents=AGENTS,
        policy_mapping=PolicyMapping(mapping or (lambda agent_id, episode: agent_id.upper()), ["ANN", "BOB"]),
    )
    member.begin()
    return member


def play(
    member: MultiAgentMember,
    observations: dict[str, str],
    rewards: dict[str, float],
    *,
    ended: dict[str, bool] | None = None,
    cut: dict[str, bool] | None = None,
    over: bool = False,
    cut_all: bool = False,
    infos: dict | None = None,
) -> None:
    """Everybody who is asked acts, then the environment answers."""
    answer = (
        observations,
        rewards,
        {**(ended or {}), "__all__": over},
        {**(cut or {}), "__all__": cut_all},
        infos or {},
    )
    step = check_multi_agent_step(answer, AGENTS, member.ended)
    assert not member.nobody_acts(step)
    acts = {a: Act(f"{a} acts in {member.env_steps}", {IS_ACTION_VALID: a == "ann"}, {}) for a in member.acting}
    member.take(acts, step)


def rewards_of(member: MultiAgentMember) -> dict[str, list[float]]:
    return {episode.agent_id: list(episode.get_rewards()) for episode in member.episodes()}


def test_agents_that_act_together_have_an_episode_each() -> None:
    member = started({"bob": "b0", "ann": "a0"}, {"ann": {"hint": 1}})
    assert member.acting == ["ann", "bob"]
    play(member, {"ann": "a1", "bob": "b1"}, {"ann": 1.0, "bob": 2.0})
    play(member, {}, {"ann": 3.0}, over=True, infos={"__common__": {"won": True}})
    ann, bob = member.episodes()
    assert (ann.agent_id, ann.module_id, bob.agent_id, bob.module_id) == ("ann", "ANN", "bob", "BOB")
    assert ann.multi_agent_episode_id == bob.multi_agent_episode_id
    assert list(ann.get_observations()) == ["a0", "a1", "a1"]
    assert list(ann.get_actions()) == ["ann acts in 0", "ann acts in 1"]
    assert rewards_of(member) == {"ann": [1.0, 3.0], "bob": [2.0, 0.0]}
    assert ann.get_infos(0) == {"hint": 1, GROUP_ID: 7, "member": 2, "task": "t", ENTERED_AT: 0}
    assert [ann.get_infos(t)[IS_ACTION_VALID] for t in (1, 2)] == [True, True]
    assert not bob.get_infos(1)[IS_ACTION_VALID]
    for episode in (ann, bob):
        assert episode.is_terminated and not episode.is_truncated
        assert {key: episode.get_infos(-1)[key] for key in (ENDING, WON, ENV_STEPS)} == {
            ENDING: "won",
            WON: True,
            ENV_STEPS: 2,
        }


def test_a_reward_belongs_to_the_agents_last_act() -> None:
    member = started({"ann": "a0"})
    play(member, {"bob": "b1"}, {"ann": 1.0, "bob": 50.0})
    assert member.acting == ["bob"]
    play(member, {"bob": "b2"}, {"ann": 10.0, "bob": 2.0})
    play(member, {"ann": "a3"}, {"ann": 100.0, "bob": 0.5})
    play(member, {}, {"ann": 3.0, "bob": 4.0}, over=True)
    assert rewards_of(member) == {"ann": [111.0, 3.0], "bob": [2.0, 4.5]}
    # What Bob got before he had done anything is counted, and given to none of his acts.
    assert member.rewards_without_act == 1
    assert member.agents["bob"].episode.get_infos(0)[ENTERED_AT] == 1
    assert list(member.agents["ann"].episode.get_observations()) == ["a0", "a3", "a3"]


def test_an_agent_that_ends_early_still_gets_what_its_last_act_earned() -> None:
    member = started({"ann": "a0", "bob": "b0"})
    play(member, {"ann": "a-end", "bob": "b1"}, {"ann": 1.0}, ended={"ann": True}, infos={"ann": {"x": 5}})
    assert member.acting == ["bob"] and member.ending is None
    play(member, {"bob": "b2"}, {"ann": 2.0})
    play(member, {}, {"ann": 4.0}, cut_all=True)
    ann, bob = member.episodes()
    assert rewards_of(member)["ann"] == [7.0]
    assert ann.get_observations(-1) == "a-end" and ann.get_infos(-1)["x"] == 5
    assert ann.is_terminated and bob.is_truncated and not bob.is_terminated
    assert member.ending == ann.get_infos(-1)[ENDING] == "step_limit"


@pytest.mark.parametrize(
    ("ended", "cut", "ending"),
    [({"ann": True, "bob": True}, {}, "lost"), ({"ann": True}, {"bob": True}, "step_limit")],
)
def test_a_trajectory_ends_when_every_agent_has(ended: dict, cut: dict, ending: str) -> None:
    member = started({"ann": "a0", "bob": "b0"})
    play(member, {}, {}, ended=ended, cut=cut)
    assert member.ending == ending
    assert [episode.is_terminated for episode in member.episodes()] == [True, ending == "lost"]


def test_an_agent_that_never_acts_has_no_episode() -> None:
    member = started({"ann": "a0"})
    play(member, {"bob": "too late"}, {"bob": 1.0}, over=True)
    assert [episode.agent_id for episode in member.episodes()] == ["ann"]


def test_an_overflow_truncates_every_agent() -> None:
    member = started({"ann": "a0", "bob": "b0"})
    play(member, {"bob": "b1"}, {"ann": 1.0})
    member.end("prompt_overflow")
    assert rewards_of(member) == {"ann": [1.0], "bob": [0.0]}
    assert all(e.is_truncated and e.get_infos(-1)[ENDING] == "prompt_overflow" for e in member.episodes())


def test_the_mapping_is_asked_once_for_each_agent_with_rllibs_episode() -> None:
    asked = []
    member = started(
        {"ann": "a0"}, mapping=lambda agent_id, episode: asked.append((agent_id, episode.id_)) or agent_id.upper()
    )
    for observations in ({"bob": "b"}, {"ann": "a"}, {"ann": "a", "bob": "b"}):
        play(member, observations, {})
    assert asked == [("ann", "7_2"), ("bob", "7_2")]


def test_the_start_of_a_member_is_what_all_agents_see() -> None:
    assert started({"ann": "x", "bob": "y"}).start == started({"bob": "y", "ann": "x"}).start
    assert started({"ann": "x", "bob": "y"}).start != started({"ann": "y", "bob": "x"}).start
    assert started({"ann": "x", "bob": "y"}).start != started({"ann": "x"}).start


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (({}, {}), "no agent"),
        (({"ann": 5}, {}), "must be a str"),
        (({"eve": "x"}, {}), "'eve'.*none of.*'ann', 'bob'"),
        (("x", {}), "must be a dict by agent"),
        (({"ann": "x"}, {"ann": 1}), "info 1"),
        ("x", r"\(observations, infos\)"),
    ],
)
def test_a_wrong_reset_is_named(answer: Any, message: str) -> None:
    with pytest.raises(EnvironmentAnswerError, match=message):
        check_multi_agent_reset(answer, AGENTS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({0: {"ann": None}}, "must be a str"),
        ({0: {"bob": "x"}}, "'bob', whose episode had ended"),
        ({1: {"ann": float("nan")}}, "reward nan"),
        ({1: {"eve": 1.0}}, "'eve'"),
        ({1: None}, "rewards None"),
        ({2: {}}, "without '__all__'"),
        ({2: {"__all__": 1}}, "__all__.*must be a bool"),
        ({3: {"ann": "no"}}, "truncateds"),
        ({4: {"eve": {}}}, "'eve'"),
        ({4: {"ann": {"admissible_actions": "look"}}}, "must be a list"),
    ],
)
def test_a_wrong_step_is_named(change: dict[int, Any], message: str) -> None:
    answer: list[Any] = [{"ann": "x"}, {"ann": 1.0}, {"__all__": False}, {}, {}]
    check_multi_agent_step(tuple(answer), AGENTS, ["bob"])
    for index, value in change.items():
        answer[index] = value
    with pytest.raises(EnvironmentAnswerError, match=message):
        check_multi_agent_step(tuple(answer), AGENTS, ["bob"])


def test_a_step_that_leaves_everybody_waiting_is_found() -> None:
    member = started({"ann": "a0", "bob": "b0"})
    for ended, waiting in (({}, True), ({"ann": True}, True), ({"ann": True, "bob": True}, False)):
        step = check_multi_agent_step(({}, {}, {**ended, "__all__": False}, {}, {}), AGENTS, member.ended)
        assert member.nobody_acts(step) is waiting


def test_agents_have_their_own_seeds_and_a_single_agent_has_the_one_it_always_had() -> None:
    group = GroupPlan(0, task=0, env_seed=0, sampling_seed=9)
    assert group.request_seed(1, 2) == derive_seed(9, 1, 2)
    assert len({group.request_seed(1, 2, agent) for agent in (None, "ann", "bob")}) == 3


def test_a_mapping_to_an_unknown_module_names_agent_module_and_the_known_ones() -> None:
    mapping = PolicyMapping(lambda agent_id, episode: "CAROL", ["ANN", "BOB"])
    with pytest.raises(ValueError, match=r"maps agent 'ann' to module 'CAROL'.*\['ANN', 'BOB'\]"):
        mapping.check(AGENTS)
    with pytest.raises(ValueError, match=r"raised KeyError for agent 'ann'.*policy_mapping_fn\(agent_id, episode\)"):
        PolicyMapping(lambda agent_id, episode: {}[agent_id], ["ANN"]).check(AGENTS)
