"""What the platform asks about a config's environment: does it exist, and what is its agent format."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
from ray.tune.registry import ENV_CREATOR, _global_registry

from rllib_gigpo import registry
from rllib_gigpo.agent_formats import AgentFormat

# For environments that bring no format of their own.
GENERIC_AGENT_FORMAT = AgentFormat(
    prompt_template="""\
{% if task %}
Task: {{ task }}
{% endif %}
{% for turn in history %}
Observation: {{ turn.observation }}
Action: {{ turn.action }}
{% endfor %}
Observation: {{ observation }}
{% if admissible_actions %}
Admissible actions: {{ admissible_actions | join(", ") }}
{% endif %}
Think first, then act. Answer as <think>your reasoning</think><action>your action</action>""",
    history_length=2,
)


def default_agent_format(env: Any) -> AgentFormat:
    """The agent format of a registered environment's name, or the generic one."""
    if isinstance(env, str) and env in registry.environment_names():
        return registry.environment(env).agent_format
    return GENERIC_AGENT_FORMAT


def check_environment(env: Any) -> None:
    """Raises ValueError where a config's `env` cannot be made: not set, or a name that nobody registered."""
    if env is None:
        raise ValueError(f"env is not set: use environment(…) with one of {', '.join(registry.environment_names())}.")
    if not isinstance(env, str) or env in gym.registry or _global_registry.contains(ENV_CREATOR, env) or "." in env:
        return
    registry.environment(env)
