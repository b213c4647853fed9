"""Prompt templates: sandboxed Jinja, strict about names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import StrictUndefined, Template, TemplateSyntaxError, meta, nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

from rllib_gigpo.agent_formats.references import imported, is_reference

VARIABLES = ("observation", "history", "step", "task", "admissible_actions", "image")


class Turn(NamedTuple):
    """An earlier step of the episode: what the agent saw, and the parsed action it took there.

    Attributes:
        observation: As text.
        action: As text.
        image: What to print where the image is to be shown, see `image_mark`; None where there was none.
    """

    observation: str
    action: str
    image: str | None = None


class PromptTemplate:
    """The user message of one step, as a Jinja template.

    Its variables: `observation` (str), `image` (of the observation, or None), `history` (earlier turns, oldest first,
    each with `.observation`, `.action` and `.image`), `step` (int, how many actions were taken before), `task` (str or
    None), `admissible_actions` (list of str or None). A template may test an optional variable (`{% if task %}`), but
    printing one that is None is an error, so that no prompt ever reads "None".

    An image is where it is printed, `{{ image }}`; with a template that never does so, before all text. Those of
    earlier turns are shown where `{{ turn.image }}` is printed, and else not.

    Templates run in Jinja's immutable sandbox, since a config file may come from elsewhere. White space follows
    `trim_blocks` and `lstrip_blocks`: a line that holds only a `{% ... %}` block leaves nothing behind.

    Raises:
        ValueError: The source is no text, does not compile, or uses a name that no prompt has, or no turn of `history`.
    """

    def __init__(self, source: str):
        self._template, names = compiled_template(source, key="prompt_template", variables=VARIABLES, turn=Turn)
        self.source = source
        self.shows_history = "history" in names
        self._shows_image = "image" in names

    def __reduce__(self) -> tuple[type[PromptTemplate], tuple[str]]:
        # A compiled template does not pickle; its source does.
        return PromptTemplate, (self.source,)

    def render(
        self,
        *,
        observation: str,
        history: Sequence[Turn],
        step: int,
        image: str | None = None,
        task: str | None = None,
        admissible_actions: Sequence[str] | None = None,
    ) -> str:
        """The user message, with the marks of the images that it shows (`image` is the mark of the current one).

        Raises:
            jinja2.UndefinedError: The template reads an attribute that does not exist.
            jinja2.exceptions.SecurityError: The template does what the sandbox forbids.
            ValueError: The template prints a value that is None.
        """
        text = self._template.render(
            observation=observation,
            image=image,
            history=history,
            step=step,
            task=task,
            admissible_actions=admissible_actions,
        )
        return text if image is None or self._shows_image else image + text


def compiled_template(
    source: str, *, key: str, variables: Sequence[str], turn: type[tuple]
) -> tuple[Template, set[str]]:
    """A template of Jinja's immutable sandbox, and the names that it uses.

    Args:
        source: Its source.
        key: What messages call it.
        variables: The names that it may use.
        turn: A NamedTuple: what a turn of `history` holds.

    Raises:
        ValueError: See `PromptTemplate`.
    """
    if not isinstance(source, str):
        raise ValueError(f"{key}={source!r} must be a string, the source of a Jinja template")
    environment = ImmutableSandboxedEnvironment(
        undefined=StrictUndefined, finalize=_refuse_none, trim_blocks=True, lstrip_blocks=True
    )
    try:
        tree = environment.parse(source)
        names = meta.find_undeclared_variables(tree)
        template = environment.from_string(source)
    except TemplateSyntaxError as error:
        raise ValueError(f"{key} does not compile, line {error.lineno}: {error.message}") from error
    unknown = sorted(names - set(variables) - set(environment.globals))
    if unknown:
        raise ValueError(f"{key} uses unknown variables {unknown}; known are {list(variables)}")
    if unknown := sorted(_turn_fields(tree) - set(dir(turn))):
        raise ValueError(
            f"{key} uses unknown fields {unknown} of a turn of `history`; known are {list(turn._fields)}"  # type: ignore[attr-defined]
        )
    return template, names


def template_source(value: Any) -> Any:
    """The source of a template that a config gives as a text: as itself, or as the path of a file that holds it, or as
    "package.module:NAME". What holds no "{{" and no "{%" is no source. Anything but a text is returned as it is.

    Raises:
        ValueError: There is no such file, or it cannot be read, or the name cannot be imported, or is no text.
    """
    if not isinstance(value, str | Path) or "{{" in str(value) or "{%" in str(value):
        return value
    if is_reference(str(value)):
        source = imported("prompt_template", str(value))
        if not isinstance(source, str):
            raise ValueError(f"prompt_template={value!r} is a {type(source).__name__}; it must be a string")
        return source
    try:
        return Path(value).expanduser().read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ValueError(
            f"prompt_template={str(value)!r} holds no {{{{ observation }}}}, so it must be the path of a file that "
            f"does, or 'package.module:NAME': {error}"
        ) from error


def _turn_fields(tree: nodes.Template) -> set[str]:
    """Names that a template reads of a turn: of the variable of a loop over `history`, and of `history[i]`."""
    turns = {
        loop.target.name
        for loop in tree.find_all(nodes.For)
        if isinstance(loop.target, nodes.Name) and _is_history(loop.iter)
    }
    return {
        field.attr
        for field in tree.find_all(nodes.Getattr)
        if (isinstance(field.node, nodes.Name) and field.node.name in turns)
        or (isinstance(field.node, nodes.Getitem) and _is_history(field.node.node))
    }


def _is_history(expression: nodes.Node) -> bool:
    """Whether it is `history`, or a slice of it."""
    while isinstance(expression, nodes.Getitem) and isinstance(expression.arg, nodes.Slice):
        expression = expression.node
    return isinstance(expression, nodes.Name) and expression.name == "history"


def _refuse_none(value: Any) -> Any:
    if value is None:
        raise ValueError(
            "it prints a value that this environment does not give (None); put it inside {% if ... %}, or leave it out"
        )
    return value
