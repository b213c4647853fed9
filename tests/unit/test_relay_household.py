"""The relay of two agents: its rules, its contract as an RLlib MultiAgentEnv, and its tasks."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from ray.rllib.env.env_context import EnvContext
from ray.rllib.env.multi_agent_env import MultiAgentEnv
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode

from rllib_gigpo.env_adapters.household.expert import expert_actions
from rllib_gigpo.env_adapters.household.layouts import OBJECTS
from rllib_gigpo.env_adapters.multi_agent.relay import (
    AGENTS,
    FINDER_RECEPTACLES,
    HATCH,
    PLACER_RECEPTACLES,
    Relay,
    RelayTask,
    relay_task,
)
from rllib_gigpo.env_adapters.multi_agent.relay_household import RelayHousehold

pytestmark = pytest.mark.unit

# The finder's and the placer's way to put an apple from the table into the shelf.
TASK = RelayTask({"apple": "table", "pen": "table", "mug": "fridge"}, "apple", "shelf")
FIND = ["go to table", "take apple from table", "go to hatch", "put apple in hatch"]
PLACE = ["go to hatch", "take apple from hatch", "go to shelf", "put apple in shelf"]


def set_up(**options: int) -> RelayHousehold:
    """An environment in which `TASK` is being played."""
    env = RelayHousehold(**options)
    env.reset(options={"task": 0})
    env._relay = Relay(TASK)
    return env


def play(env: RelayHousehold, commands: list[str]) -> list[tuple]:
    """The answers to commands, each given by the agent whose turn it is."""
    return [env.step({env.relay.agent: command}) for command in commands]


def played_with_expert(env: RelayHousehold, task: int, rng: np.random.Generator, mistakes: float) -> MultiAgentEpisode:
    """A whole game as RLlib records it; each act is uniform over the possible ones with probability `mistakes`."""
    episode = MultiAgentEpisode(
        observation_space=env.observation_spaces, action_space=env.action_spaces, agent_to_module_mapping_fn=_module
    )
    observations, infos = env.reset(options={"task": task})
    episode.add_env_reset(observations=observations, infos=infos)
    while not episode.is_done:
        (agent,) = episode.get_agents_to_act()
        room = env.relay.rooms[agent]
        possible = room.commands() if rng.random() < mistakes else expert_actions(room)
        action = {agent: possible[rng.integers(len(possible))]}
        observations, rewards, terminateds, truncateds, infos = env.step(action)
        episode.add_env_step(
            observations, action, rewards, infos, terminateds=terminateds, truncateds=truncateds, extra_model_outputs={}
        )
    return episode


def _module(agent: str, episode: MultiAgentEpisode, **kwargs: Any) -> str:
    return "shared"


def test_agents_and_spaces() -> None:
    env = RelayHousehold()
    assert isinstance(env, MultiAgentEnv)
    assert env.agents == env.possible_agents == ["finder", "placer"] == list(AGENTS)
    for agent in AGENTS:
        assert env.get_observation_space(agent).contains("You are the finder. You checked nothing.\n?!|")
        assert env.get_action_space(agent).contains("") and env.get_action_space(agent).contains("go to hatch")


def test_the_turn_passes_once_and_the_last_step_answers_both() -> None:
    env = set_up()
    answers = play(env, [*FIND, *PLACE])
    assert [list(observations) for observations, *_ in answers] == [
        *[["finder"]] * 3,
        *[["placer"]] * 4,
        ["finder", "placer"],
    ]
    assert [rewards for _, rewards, *_ in answers[:7]] == [{"finder": 0.0}] * 4 + [{"placer": 0.0}] * 3
    observations, rewards, terminateds, truncateds, infos = answers[-1]
    assert rewards == {"finder": 10.0, "placer": 10.0}
    assert (terminateds, truncateds) == ({"__all__": True}, {"__all__": False})
    assert all(infos[agent]["won"] and infos[agent]["is_action_valid"] for agent in AGENTS)
    assert observations["finder"].endswith("You are at the hatch. You see apple. You hold nothing.")
    assert not any(terminateds["__all__"] or truncateds["__all__"] for *_, terminateds, truncateds, _ in answers[:-1])


def test_each_agent_reads_its_role_and_its_own_task() -> None:
    env = set_up()
    start, infos = env._answers(["finder"])
    assert start == {
        "finder": "You are the finder. You checked nothing.\nYou are in the middle of the room. You hold nothing."
    }
    assert infos["finder"] == {
        "won": False,
        "task_id": "relay_household/0",
        "task_type": "relay",
        "task_description": "put apple in hatch",
        "admissible_actions": [f"go to {place}" for place in (*FINDER_RECEPTACLES, HATCH)],
        "anchor_state": "You are in the middle of the room. You hold nothing.",
    }
    observations, _, _, _, infos = play(env, FIND)[-1]
    assert observations == {"placer": start["finder"].replace("finder", "placer")}
    assert infos["placer"]["task_description"] == "put apple in shelf"
    assert infos["placer"]["admissible_actions"] == [f"go to {place}" for place in (*PLACER_RECEPTACLES, HATCH)]
    assert "is_action_valid" not in infos["placer"], "the placer has not acted"


def test_what_else_lies_in_the_hatch_goes_through_with_the_object() -> None:
    env = set_up()
    wrong = ["go to table", "take pen from table", "go to hatch", "put pen in hatch"]
    assert list(play(env, wrong)[-1][0]) == ["finder"], "a wrong object must not pass the turn"
    play(env, FIND)
    observations = play(env, ["go to hatch"])[-1][0]
    assert observations["placer"].endswith("You are at the hatch. You see apple pen. You hold nothing.")


@pytest.mark.parametrize("action", ["", "open fridge", "go to shelf", "take mug from fridge", "Go to hatch", "ω" * 999])
def test_what_cannot_be_done_is_a_no_op_that_costs_an_act(action: str) -> None:
    env = RelayHousehold(max_steps=2)
    first, _ = env.reset(options={"task": 3})
    observations, rewards, terminateds, truncateds, infos = env.step({"finder": action})
    assert observations == first and rewards == {"finder": 0.0}
    assert (terminateds, truncateds) == ({"__all__": False}, {"__all__": False})
    assert infos["finder"]["is_action_valid"] is False
    assert env.step({"finder": action})[3] == {"__all__": True}, "the no-op did not count"


def test_the_step_limit_counts_the_acts_of_both_and_answers_those_that_acted() -> None:
    for max_steps, acted in ((3, ["finder"]), (4, ["finder"]), (5, ["finder", "placer"]), (7, ["finder", "placer"])):
        answers = play(set_up(max_steps=max_steps), [*FIND, *PLACE][:max_steps])
        observations, rewards, terminateds, truncateds, infos = answers[-1]
        assert list(observations) == list(rewards) == list(infos) == acted, max_steps
        assert set(rewards.values()) == {0.0}
        assert (terminateds, truncateds) == ({"__all__": False}, {"__all__": True})
    assert play(set_up(max_steps=8), [*FIND, *PLACE])[-1][2:4] == ({"__all__": True}, {"__all__": False})


@pytest.mark.parametrize("mistakes", [0.0, 0.7])
def test_rllib_records_whole_games(mistakes: float) -> None:
    env, rng, ended = RelayHousehold(), np.random.default_rng(0), Counter[str]()
    for task in range(60):
        episode = played_with_expert(env, task, rng, mistakes)
        lengths = {agent: len(agent_episode) for agent, agent_episode in episode.agent_episodes.items()}
        assert sum(lengths.values()) == episode.env_steps() <= 20
        assert all(lengths.values()), "an agent without an act must not be in the episode"
        for agent, agent_episode in episode.agent_episodes.items():
            assert agent_episode.get_return() == (10.0 if episode.is_terminated else 0.0)
            assert (agent_episode.is_terminated, agent_episode.is_truncated) == (
                episode.is_terminated,
                episode.is_truncated,
            )
            assert all(f"You are the {agent}." in text for text in agent_episode.get_observations())
            assert all(info["is_action_valid"] for info in agent_episode.get_infos()[1:])
        ended["won" if episode.is_terminated else "placer" if "placer" in lengths else "finder"] += 1
    assert ended["won"] == 60 if mistakes == 0.0 else min(ended[end] for end in ("won", "placer", "finder")) > 0


def test_random_play_hardly_ever_wins() -> None:
    env, rng = RelayHousehold(), np.random.default_rng(0)
    wins = sum(played_with_expert(env, task, rng, mistakes=1.0).is_terminated for task in range(200))
    assert wins / 200 < 0.03


def test_a_task_alone_decides_the_start() -> None:
    first, second = RelayHousehold(), RelayHousehold({"max_steps": 3})
    for task in (0, 17, np.int64(17), 2**40):
        assert first.reset(seed=1, options={"task": task}) == second.reset(seed=2, options={"task": task})
    env = RelayHousehold()
    tasks = [env.reset(seed=seed)[1]["finder"]["task_id"] for seed in range(20)]
    assert tasks == [RelayHousehold().reset(seed=seed)[1]["finder"]["task_id"] for seed in range(20)]
    assert len(set(tasks)) == 20
    assert len({env.reset()[1]["finder"]["task_id"] for _ in range(20)}) == 20, "later resets must go on drawing"


@pytest.mark.parametrize("num_objects", [1, 4, 6])
def test_tasks_are_drawn_evenly(num_objects: int) -> None:
    tasks = [relay_task(task, num_objects=num_objects) for task in range(3000)]
    assert {len(task.receptacle_of) for task in tasks} == {num_objects}
    for names, drawn in (
        (OBJECTS, [task.object_to_put for task in tasks]),
        (PLACER_RECEPTACLES, [task.destination for task in tasks]),
        (FINDER_RECEPTACLES, [task.receptacle_of[task.object_to_put] for task in tasks]),
    ):
        counts, share = Counter(drawn), 1 / len(names)
        # 5 standard deviations of a share of 1/3 are 0.043 for 3000 tasks.
        assert {name: counts[name] / 3000 for name in names} == pytest.approx(dict.fromkeys(names, share), abs=0.043)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_steps": 0}, "max_steps is 0; it must be an integer of at least 1"),
        ({"num_objects": 7}, "num_objects is 7; it must be an integer from 1 to 6"),
        ({"steps": 3}, r"options \['steps'\]; known are \['max_steps', 'num_objects'\]"),
    ],
)
def test_wrong_options_are_refused(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RelayHousehold(EnvContext(options, worker_index=0))


def test_wrong_calls_are_refused() -> None:
    with pytest.raises(TypeError, match="RelayHousehold takes an integer"):
        RelayHousehold().reset(options={"task": "17"})
    with pytest.raises(RuntimeError, match="before reset"):
        RelayHousehold().step({"finder": "go to hatch"})
    env = set_up()
    for agents in ([], ["placer"], ["finder", "placer"]):
        with pytest.raises(ValueError, match="it is the turn of 'finder'"):
            env.step(dict.fromkeys(agents, "go to hatch"))
    with pytest.raises(TypeError, match="action of 'finder' is 3 of type int"):
        env.step({"finder": 3})
    assert env._steps == 0, "a refused call must not count"
