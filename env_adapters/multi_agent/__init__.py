"""Text games for several language agents that work together."""

from __future__ import annotations

from pathlib import Path

from rllib_gigpo.agent_formats import AgentFormat
from rllib_gigpo.environment_entry import EnvironmentEntry

# One format for both agents: the observation says who one is, the task what is to be done on one's own side. As in
# Household, the task comes last: only there does a tiny model learn to copy from it.
RELAY_HOUSEHOLD_PROMPT = """\
The finder passes an object through the hatch, the placer puts it away.
Commands: go to R, open R, take O from R, put O in R.
Reply <think>reason</think><action>command</action>.
{% for turn in history %}
{{ turn.observation }} -> {{ turn.action or "no valid action" }}
{% endfor %}
{{ observation }}
Task: {{ task }}."""

RELAY_HOUSEHOLD = EnvironmentEntry(
    name="RelayHousehold",
    entry_point="rllib_gigpo.env_adapters.multi_agent.relay_household:RelayHousehold",
    agent_format=AgentFormat(prompt_template=RELAY_HOUSEHOLD_PROMPT),
    embedded_model=Path(__file__).parent / "embedded_models" / "relay_household",
)
