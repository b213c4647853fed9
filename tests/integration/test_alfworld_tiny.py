"""ALFWorldTiny, its expert and its embedded model, and GiGPO on it."""

from __future__ import annotations

from itertools import islice

import pytest

from rllib_gigpo.agent_formats import PromptTemplate, Turn, think_action
from rllib_gigpo.env_adapters import make_env
from rllib_gigpo.env_adapters.alfworld import ALFWORLD_TINY
from rllib_gigpo.env_adapters.alfworld.embedded_alfworld import demonstrations
from rllib_gigpo.env_adapters.alfworld.expert import Expert
from rllib_gigpo.env_adapters.alfworld.tiny import ALFWorldTiny
from tests.alfworld_cases import needs_alfworld

pytestmark = [pytest.mark.integration, needs_alfworld]


@pytest.fixture(autouse=True)
def no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ALFWORLD_DATA", raising=False)


def test_the_family_is_made_by_name() -> None:
    env = make_env("ALFWorldTiny", max_steps=5)
    assert isinstance(env, ALFWorldTiny)
    _, info = env.reset(options={"task": 3})
    assert info["task_type"] == "pick_and_place_simple" and "anchor_state" in info
    assert sum(command.startswith("go to ") for command in info["admissible_actions"]) == 4
    env.close()


def test_the_expert_wins_what_it_is_made_for() -> None:
    env = ALFWorldTiny()
    for task in range(8):
        _, info = env.reset(options={"task": task})
        expert = Expert(info["task_description"], info["admissible_actions"])
        ended = False
        while not ended:
            command = expert.actions()[-1]
            _, reward, terminated, truncated, info = env.step(command)
            assert info["is_action_admissible"]
            expert.follow(command, info["admissible_actions"])
            ended = terminated or truncated
        assert info["won"] and reward == 10.0
        assert expert.thought().endswith("here.")
    env.close()


def test_the_expert_knows_its_limits() -> None:
    with pytest.raises(ValueError, match="task is 'put two mug in cabinet'"):
        Expert("put two mug in cabinet", [])


def test_demonstrations_repeat_and_are_in_the_agents_format() -> None:
    def rows(seed: int) -> list[tuple[str, str]]:
        return list(islice(demonstrations(games=2, played_by_expert=0.5, shown_by_expert=1.0, seed=seed), 30))

    assert rows(0) == rows(0) != rows(1)
    for user_message, response in rows(0):
        parsed = think_action(response)
        commands = user_message.split("Commands: ")[1].split("\n")[0].split("; ")
        assert parsed.is_valid and parsed.action in commands


def test_the_prompt_drops_the_task_line_of_the_first_observation() -> None:
    prompt = PromptTemplate(ALFWORLD_TINY.agent_format.prompt_template)
    rest = {"task": "put a mug in shelf", "admissible_actions": ["go to shelf 1", "help"]}
    first = prompt.render(observation="Room.\n\nYour task is to: put a mug in shelf.", history=(), step=0, **rest)
    assert "Did: nothing\nRoom.\nCommands: go to shelf 1\nTask: put a mug in shelf." in first
    later = prompt.render(observation="Mug.", history=(Turn("Room.", "look"), Turn("a", "b")), step=2, **rest)
    assert "Did: look; b\nMug.\nCommands" in later
