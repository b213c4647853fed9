"""Sokoban as text or in pictures (Schrader 2018, gym-sokoban), with levels from a generator of our own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rllib_gigpo.agent_formats import AgentFormat, OneOf
from rllib_gigpo.environment_entry import EnvironmentEntry

# Names the default symbols; with other ones, give a prompt template that names those.
SOKOBAN_PROMPT = """\
Push every box onto a target: # wall, _ floor, O target, X box, √ box on a target, P you, S you on a target.
You can push one box at a time, and never pull.
Reply <think>reason</think><action>direction</action>, with up, down, left or right for the direction.
{% for turn in history %}
{{ turn.observation }}
-> {{ turn.action or "no valid action" }}
{% endfor %}
{{ observation }}"""

SOKOBAN_IMAGE_PROMPT = """\
Push every box (crossed, green on a target) onto a target (red frame). You are the blue disc.
You can push one box at a time, and never pull.
Reply <think>reason</think><action>direction</action>, with up, down, left or right for the direction.
{% for turn in history %}
-> {{ turn.action or "no valid action" }}
{% endfor %}"""

_PARSER = OneOf(("up", "down", "left", "right"))

SOKOBAN = EnvironmentEntry(
    name="Sokoban",
    entry_point="rllib_gigpo.env_adapters.sokoban.sokoban:Sokoban",
    agent_format=AgentFormat(prompt_template=SOKOBAN_PROMPT, response_parser=_PARSER),
    image_agent_format=AgentFormat(prompt_template=SOKOBAN_IMAGE_PROMPT, response_parser=_PARSER),
    embedded_model=Path(__file__).parent / "embedded_models" / "sokoban",
    embedded_image_model=Path(__file__).parent / "embedded_models" / "sokoban_image",
)

# `env_config` of the levels that the embedded model was warmed up on; it knows no others.
EASY_LEVELS: dict[str, Any] = {"min_solution_length": 4, "max_solution_length": 6, "max_steps": 8}
# The same of the embedded vision-language model.
EASY_PICTURES: dict[str, Any] = {
    "observation": "image",
    "min_solution_length": 2,
    "max_solution_length": 4,
    "max_steps": 6,
}
