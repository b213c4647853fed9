"""ALFWorld (Shridhar et al. 2021): household tasks as text, on the real `alfworld` and TextWorld packages.

The packages are an extra: `pip install "rllib-gigpo[alfworld]"`. Nothing in here imports them before an environment or
a game is made.
"""

from __future__ import annotations

from pathlib import Path

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

# Commands that tell nothing new in a room this small, and are not listed in its prompt.
COMMANDS_LEFT_OUT = ("help", "inventory", "look")

# Without what the game has just said, unless history is asked for: the commands tell what is held, what lies here and
# where the agent stands. The task comes last, at a constant distance from where the answer begins, whence a tiny model
# can copy. It also knows how to answer.
ALFWORLD_TINY_PROMPT = f"""\
{{% if history %}}
{{% for turn in history %}}
{{{{ turn.observation }}}} > {{{{ turn.action }}}}
{{% endfor %}}
{{{{ observation }}}}
{{% endif %}}
{{{{ admissible_actions | reject("in", {COMMANDS_LEFT_OUT}) | join("; ") }}}}
Task: {{{{ task }}}}."""

ALFWORLD_TINY = EnvironmentEntry(
    name="ALFWorldTiny",
    entry_point="rllib_gigpo.env_adapters.alfworld.tiny:ALFWorldTiny",
    agent_format=AgentFormat(prompt_template=ALFWORLD_TINY_PROMPT),
    embedded_model=Path(__file__).parent / "embedded_models" / "alfworld_tiny",
)
