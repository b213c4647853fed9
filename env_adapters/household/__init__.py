"""A small text household in the manner of ALFWorld (Shridhar et al. 2021), without any dependency."""

from __future__ import annotations

from pathlib import Path

from rllib_gigpo.agent_formats import AgentFormat
from rllib_gigpo.environment_entry import EnvironmentEntry

# The task comes last, at a constant distance from where the answer begins: a tiny model can then copy from it, which it
# hardly learns to do from a task at the beginning.
HOUSEHOLD_PROMPT = """\
Commands: go to R, open R, take O from R, put O in R.
Reply <think>reason</think><action>command</action>.
{% for turn in history %}
{{ turn.observation }} -> {{ turn.action or "no valid action" }}
{% endfor %}
{{ observation }}
Task: {{ task }}."""

HOUSEHOLD = EnvironmentEntry(
    name="Household",
    entry_point="rllib_gigpo.env_adapters.household.household:Household",
    agent_format=AgentFormat(prompt_template=HOUSEHOLD_PROMPT),
    embedded_model=Path(__file__).parent / "embedded_models" / "household",
)
