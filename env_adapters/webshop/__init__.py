"""WebShop (Yao et al. 2022): a shop in text, written anew on the public data's formats.

The search engine is an extra: `pip install "rllib-gigpo[webshop]"`. Nothing in here imports it before a shop is made.
"""

from __future__ import annotations

from rllib_gigpo.agent_formats import AgentFormat
from rllib_gigpo.environment_entry import EnvironmentEntry

# Pages repeat the instruction, which the prompt shows once. Any words may be searched for.
WEBSHOP_PROMPT = """\
{% set told = "Instruction: [SEP] " ~ task ~ " [SEP] " %}
You are an agent that shops in an online store.
Your task is to: {{ task }}.
{% if step %}
You have taken {{ step }} actions so far.
{% endif %}
{% if history %}
The last {{ history | length }}, each after the page that you saw:
{% for turn in history %}
- Page: {{ turn.observation | replace(told, "") }}
  Action: {{ turn.action or "none that is valid" }}
{% endfor %}
{% endif %}
Now you see the page: {{ observation | replace(told, "") }}
You can do one of these:
{% for action in admissible_actions %}
{{ "search[<words>]" if action.startswith("search[") else action }}
{% endfor %}
First think step by step about what to do next, inside <think> </think>. Then give one action, inside <action> \
</action>."""

WEBSHOP = EnvironmentEntry(
    name="WebShop",
    entry_point="rllib_gigpo.env_adapters.webshop.webshop_env:WebShop",
    agent_format=AgentFormat(prompt_template=WEBSHOP_PROMPT, history_length=2),
    small_env_config={"data": "", "num_products": 20, "max_steps": 4},
    machine_check="rllib_gigpo.env_adapters.webshop.machine_check:check_machine",
)
