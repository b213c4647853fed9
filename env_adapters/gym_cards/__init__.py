"""Card games of Gym Cards (Zhai et al. 2024)."""

from __future__ import annotations

from pathlib import Path

from rllib_gigpo.agent_formats import AgentFormat
from rllib_gigpo.environment_entry import EnvironmentEntry

# The observation comes last, so that the end of every prompt looks alike: a tiny model then finds the formula at a
# constant distance from where it writes.
EZPOINTS_PROMPT = """\
Make 12 using both numbers once. Each turn, add one part: a number, + or *; at the end, =.
Reply <think>reason</think><action>part</action>.
{{ observation }}"""

EZPOINTS = EnvironmentEntry(
    name="EZPoints",
    entry_point="rllib_gigpo.env_adapters.gym_cards.ezpoints:EZPoints",
    agent_format=AgentFormat(prompt_template=EZPOINTS_PROMPT),
    embedded_model=Path(__file__).parent / "embedded_models" / "ezpoints",
)
