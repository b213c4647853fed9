"""Text games for several language agents, which work together or against each other."""

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

# What is left comes last, next to the answer, where a tiny model finds it most easily.
NIM_PROMPT = """\
Take stones in turn. Who takes the last one wins.
Moves: {{ admissible_actions | join(", ") }}.
Reply <think>reason</think><action>move</action>.
{% for turn in history %}
{{ turn.observation }} -> {{ turn.action or "no valid action" }}
{% endfor %}
{{ observation }}"""

NIM = EnvironmentEntry(
    name="Nim",
    entry_point="rllib_gigpo.env_adapters.multi_agent.nim:Nim",
    agent_format=AgentFormat(prompt_template=NIM_PROMPT),
    embedded_model=Path(__file__).parent / "embedded_models" / "nim",
)

TEXTARENA_PROMPT = """\
{% for turn in history %}
{{ turn.observation }}
Your move: {{ turn.action or "none that could be read" }}
{% endfor %}
{{ observation }}

It is your turn. Think first, then give your move in the form that the rules ask for.
Reply <think>reason</think><action>move</action>."""

TEXTARENA = EnvironmentEntry(
    name="TextArena",
    entry_point="rllib_gigpo.env_adapters.multi_agent.textarena_game:TextArenaGame",
    agent_format=AgentFormat(
        prompt_template=TEXTARENA_PROMPT,
        response_parser="rllib_gigpo.env_adapters.multi_agent.verbatim_action:verbatim_action",
    ),
)
