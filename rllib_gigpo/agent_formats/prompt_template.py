"""Prompt templates: sandboxed Jinja, strict about names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from jinja2 import StrictUndefined, TemplateSyntaxError, meta
from jinja2.sandbox import ImmutableSandboxedEnvironment

VARIABLES = ("observation", "history", "step", "task", "admissible_actions")


class Turn(NamedTuple):
    """An earlier step of the episode: what the agent saw, and the parsed action it took there."""

    observation: str
    action: str


class PromptTemplate:
    """The user message of one step, as a Jinja template.

    Its variables: `observation` (str), `history` (earlier turns, oldest first, each with `.observation` and `.action`),
    `step` (int, how many actions were taken before), `task` (str or None), `admissible_actions` (list of str or None).
    A template may test an optional variable (`{% if task %}`), but printing one that is None is an error, so that
    no prompt ever reads "None".

    Templates run in Jinja's immutable sandbox, since a config file may come from elsewhere. White space follows
    `trim_blocks` and `lstrip_blocks`: a line that holds only a `{% ... %}` block leaves nothing behind.

    Raises:
        ValueError: The source is no text, does not compile, or uses a name that no prompt has.
    """

    def __init__(self, source: str):
        if not isinstance(source, str):
            raise ValueError(f"prompt_template={source!r} must be a string, the source of a Jinja template")
        environment = ImmutableSandboxedEnvironment(
            undefined=StrictUndefined, finalize=_refuse_none, trim_blocks=True, lstrip_blocks=True
        )
        try:
            names = meta.find_undeclared_variables(environment.parse(source))
            self._template = environment.from_string(source)
        except TemplateSyntaxError as error:
            raise ValueError(f"prompt_template does not compile, line {error.lineno}: {error.message}") from error
        unknown = sorted(names - set(VARIABLES) - set(environment.globals))
        if unknown:
            raise ValueError(f"prompt_template uses unknown variables {unknown}; known are {list(VARIABLES)}")
        self.source = source

    def __reduce__(self) -> tuple[type[PromptTemplate], tuple[str]]:
        # A compiled template does not pickle; its source does.
        return PromptTemplate, (self.source,)

    def render(
        self,
        *,
        observation: str,
        history: Sequence[Turn],
        step: int,
        task: str | None = None,
        admissible_actions: Sequence[str] | None = None,
    ) -> str:
        """The user message.

        Raises:
            jinja2.UndefinedError: The template reads an attribute that does not exist.
            jinja2.exceptions.SecurityError: The template does what the sandbox forbids.
            ValueError: The template prints a value that is None.
        """
        return self._template.render(
            observation=observation, history=history, step=step, task=task, admissible_actions=admissible_actions
        )


def _refuse_none(value: Any) -> Any:
    if value is None:
        raise ValueError(
            "prompt_template prints a value that this environment does not give (None); "
            "put it inside {% if ... %}, or leave it out"
        )
    return value
