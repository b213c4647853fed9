"""ALFWorld (Shridhar et al. 2021): household tasks as text, on the real `alfworld` and TextWorld packages.

The packages are an extra: `pip install "rllib-gigpo[alfworld]"`. Nothing in here imports them before an environment or
a game is made.
"""

from __future__ import annotations

from rllib_gigpo.agent_formats import AgentFormat
from rllib_gigpo.environment_entry import EnvironmentEntry

_BEFORE_ACTIONS = """\
You are an agent in a house and act by text commands.
{% if step %}
Your task is to: {{ task }}.
You have taken {{ step }} actions so far.
{% if history %}
The last {{ history | length }}, each after what you saw:
{% for turn in history %}
- Observation: {{ turn.observation }}
  Action: {{ turn.action }}
{% endfor %}
{% endif %}
{% endif %}
Now you see: {{ observation }}
"""
_ACTIONS = """\
You can do one of these: {{ admissible_actions | reject("equalto", "help") | join(", ") }}
"""
_AFTER_ACTIONS = """\
First think step by step about what to do next, inside <think> </think>. Then give one command, inside <action> \
</action>."""

# The first observation holds the task itself, later prompts repeat it.
ALFWORLD_PROMPT = _BEFORE_ACTIONS + _ACTIONS + _AFTER_ACTIONS
# The harder setting: the agent has to know the commands.
ALFWORLD_PROMPT_WITHOUT_ACTIONS = (
    _BEFORE_ACTIONS
    + """\
Commands: go to R, open R, close R, take O from R, move O to R, heat O with R, cool O with R, clean O with R, use O, \
examine O, examine R, look, inventory; R is a receptacle and O an object, both with their numbers.
"""
    + _AFTER_ACTIONS
)

ALFWORLD = EnvironmentEntry(
    name="ALFWorld",
    entry_point="rllib_gigpo.env_adapters.alfworld.alfworld_env:ALFWorld",
    agent_format=AgentFormat(prompt_template=ALFWORLD_PROMPT, history_length=2),
    small_env_config={"data": "", "num_receptacles": 4, "num_objects": 2, "max_steps": 4},
    machine_check="rllib_gigpo.env_adapters.alfworld.machine_check:check_machine",
)
