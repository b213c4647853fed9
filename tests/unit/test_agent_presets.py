"""Presets of prompted agents, and how a thought is found in a response."""

from __future__ import annotations

from typing import Any

import pytest

from rllib_gigpo.agent_formats.agent_presets import (
    AGENT_PRESETS,
    AGENT_VARIABLES,
    REFLECTION_VARIABLES,
    AgentPreset,
    AgentTemplate,
    AgentTurn,
    agent_preset,
)
from rllib_gigpo.agent_formats.thoughts import thought_of

pytestmark = pytest.mark.unit

TURNS = [AgentTurn("a door", "it may be locked", "open door"), AgentTurn("a hall", "", "")]


def rendered(source: str, variables: tuple[str, ...] = AGENT_VARIABLES, **changes: Any) -> str:
    values = {"prompt": "THE PROMPT", "history": [], "reflections": [], "task": None, "step": 0, "ending": None}
    return AgentTemplate(source, key="prompt_template", variables=variables).render(**{**values, **changes})


def test_prompt_is_the_environments_own() -> None:
    assert rendered(AGENT_PRESETS["prompt"].prompt_template) == "THE PROMPT"


def test_react_shows_every_turn_in_order_and_then_the_prompt() -> None:
    react = AGENT_PRESETS["react"].prompt_template
    assert "turns so far" not in rendered(react)
    message = rendered(react, history=TURNS)
    assert message.endswith("\n\nNow:\nTHE PROMPT")
    assert (
        "Observation: a door\nThought: it may be locked\nAction: open door\n"
        "Observation: a hall\nThought: none\nAction: none that could be read\n"
    ) in message


def test_reflexion_is_react_with_notes_and_asks_for_them() -> None:
    preset = AGENT_PRESETS["reflexion"]
    react = AGENT_PRESETS["react"].prompt_template
    assert rendered(preset.prompt_template, history=TURNS) == rendered(react, history=TURNS)
    assert "for this try:\n- look first\n- be quick\n" in rendered(
        preset.prompt_template, reflections=["look first", "be quick"]
    )
    question = rendered(
        preset.reflection_template, REFLECTION_VARIABLES, history=TURNS, ending="step_limit", task="get out"
    )
    for part in ("did not succeed (step_limit)", "Task: get out", "Action: open door", "THE PROMPT"):
        assert part in question


def test_an_observation_is_not_read_as_a_template() -> None:
    assert "{{ prompt }}" in rendered(
        AGENT_PRESETS["react"].prompt_template, history=[AgentTurn("{{ prompt }}", "", "")]
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prompt_template": "{{ observation }}"}, "prompt_template uses unknown variables .'observation'."),
        ({"prompt_template": "{% if %}"}, "prompt_template does not compile"),
        ({"reflection_template": "{% for t in history %}{{ t.reward }}{% endfor %}"}, "unknown fields .'reward'."),
    ],
)
def test_wrong_templates_are_named(options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AgentPreset(**options)


def test_an_unknown_preset_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match="agent is 'cot'; there are prompt, react, reflexion"):
        agent_preset("cot")


@pytest.mark.parametrize(
    ("text", "thought"),
    [
        ("<think>a\n b</think><action>c</action>", "a b"),
        ("<THINK>a</THINK>", "a"),
        ("<think>cut in the middle", "cut in the middle"),
        ('{"thoughts": "a", "action": "b"}', "a"),
        ('```json\n{"Thoughts": "a\nb", "action": 3}\n```', "a b"),
        ('{"thoughts": 3}', ""),
        ("I go left. <action>left</action>", "I go left."),
        ("left", "left"),
        ("{not json}", "{not json}"),
        ("", ""),
    ],
)
def test_thoughts_are_found_in_every_format(text: str, thought: str) -> None:
    assert thought_of(text) == thought
