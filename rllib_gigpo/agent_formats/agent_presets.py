"""How a model plays by prompting alone, the papers' baselines without training.

The prompts are our own words, after what the papers describe, and go around the environment's own prompt, which has its
rules and says how to answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rllib_gigpo.agent_formats.prompt_template import compiled_template

AGENT_VARIABLES = ("prompt", "history", "reflections", "task", "step")
REFLECTION_VARIABLES = ("prompt", "history", "reflections", "task", "step", "ending")


class AgentTurn(NamedTuple):
    """An earlier step of an agent: what it saw, what it thought, and the parsed action it took ("" where there was
    none)."""

    observation: str
    thought: str
    action: str


@dataclass(frozen=True)
class AgentPreset:
    """A way of prompting.

    Attributes:
        prompt_template: Jinja source of the user message. Its variables: `prompt`, what the environment's agent format
            asks in this step; `history`, the agent's earlier turns of this trial, oldest first, each with
            `.observation`, `.thought` and `.action`; `reflections`, what it wrote after earlier trials; `task` (or
            None); `step`. Where it shows `history`, `prompt` is without the environment's own history.
        reflection_template: The message that asks for a reflection after a trial that was not won; it also has
            `ending`. None: no further trials.
        trials: How often a task is tried, unless a run says otherwise.
        most_reflections: So many of the latest ones are shown.

    Raises:
        ValueError: A template does not compile, or uses an unknown variable.
    """

    prompt_template: str = "{{ prompt }}"
    reflection_template: str | None = None
    trials: int = 1
    most_reflections: int = 3

    def __post_init__(self) -> None:
        AgentTemplate(self.prompt_template, key="prompt_template", variables=AGENT_VARIABLES)
        if self.reflection_template is not None:
            AgentTemplate(self.reflection_template, key="reflection_template", variables=REFLECTION_VARIABLES)


class AgentTemplate:
    """A template of a preset.

    Args:
        source: Jinja source.
        key: What messages call it.
        variables: Names that it may use.

    Raises:
        ValueError: See `AgentPreset`.
    """

    def __init__(self, source: str, *, key: str, variables: Sequence[str]):
        self._template, names = compiled_template(source, key=key, variables=variables, turn=AgentTurn)
        self.shows_history = "history" in names

    def render(self, **values: object) -> str:
        """The user message, from a value for each of the variables."""
        return self._template.render(**values)


_SO_FAR = """\
{% for turn in history %}
Observation: {{ turn.observation }}
Thought: {{ turn.thought or "none" }}
Action: {{ turn.action or "none that could be read" }}
{% endfor %}
"""

_REACT = (
    """\
You work on a task in turns. In each turn you think about what you have seen and what it means for the task, decide \
what to do next, and then do it: one thought, one action. After that you see what came of it.
{% if history %}

Your turns so far:
"""
    + _SO_FAR
    + """\
{% endif %}

Now:
{{ prompt }}"""
)

_LESSONS = """\
{% if reflections %}
You have tried this task before, without success. What you noted for this try:
{% for reflection in reflections %}
- {{ reflection }}
{% endfor %}

{% endif %}
"""

_REFLECTION = (
    """\
You tried a task and did not succeed ({{ ending }}).
{% if task %}
Task: {{ task }}
{% endif %}

Your turns:
"""
    + _SO_FAR
    + """\
The last thing that you were asked:
{{ prompt }}

Look back at this try. Where did it go wrong, and why? What will you do differently in the next try? \
Answer with a short note to yourself, of two or three sentences and without an action."""
)

AGENT_PRESETS: dict[str, AgentPreset] = {
    # The environment's prompt as it is: what training would begin with.
    "prompt": AgentPreset(),
    # Yao et al. 2022, ReAct: Synergizing Reasoning and Acting in Language Models.
    "react": AgentPreset(prompt_template=_REACT),
    # Shinn et al. 2023, Reflexion: Language Agents with Verbal Reinforcement Learning; with ReAct as the actor.
    "reflexion": AgentPreset(prompt_template=_LESSONS + _REACT, reflection_template=_REFLECTION, trials=3),
}


def agent_preset(name: str) -> AgentPreset:
    """The preset of that name. Raises ValueError where there is none."""
    if name not in AGENT_PRESETS:
        raise ValueError(f"agent is {name!r}; there are {', '.join(AGENT_PRESETS)}")
    return AGENT_PRESETS[name]
