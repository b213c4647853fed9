"""The agent format of an environment: everything between its observations and its actions, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal

from rllib_gigpo.agent_formats.parsed_response import ResponseParser
from rllib_gigpo.agent_formats.prompt_template import PromptTemplate
from rllib_gigpo.agent_formats.response_parsers import response_parser

HistoryLength = int | Literal["full"]


@dataclass(frozen=True)
class AgentFormat:
    """How prompts are written and responses are read.

    An environment brings its own; a user replaces it, or a part of it with `dataclasses.replace`. It pickles, as long
    as a parser given as a function is importable.

    Attributes:
        prompt_template: Jinja source of the user message, see `PromptTemplate` for its variables.
        history_length: How many earlier turns of the episode the template receives as `history`, the latest ones; 0 is
            no memory, "full" the whole episode.
        response_parser: A name in `RESPONSE_PARSERS`, "package.module:name", or a function, from the response's text to
            a `ParsedResponse`.
        stop: Strings that end a response, beside the tokenizer's end-of-sequence token.
        examples: Worked examples that a prompt begins with, as turns of the conversation: (user message, response). A
            small pretrained model takes a format from these far more often than from a description.

    Raises:
        ValueError: The template does not compile or uses an unknown variable, `history_length` is negative, or not 0
            while the template never shows `history`, the parser is unknown or cannot be imported, a stop string is
            empty, an example is no pair of strings, or a value is of another type.
    """

    prompt_template: str
    history_length: HistoryLength = 0
    response_parser: str | ResponseParser = "think_action"
    stop: tuple[str, ...] = ()
    examples: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        template = PromptTemplate(self.prompt_template)
        if self.history_length != "full":
            if not isinstance(self.history_length, Integral) or isinstance(self.history_length, bool):
                raise ValueError(f"history_length={self.history_length!r} must be an integer, or 'full'")
            if self.history_length < 0:
                raise ValueError(f"history_length is {self.history_length}; it must be 0 (no memory) or greater")
        if self.history_length and not template.shows_history:
            raise ValueError(
                f"history_length={self.history_length!r} has no effect: the prompt_template never shows `history`. Put "
                "{% for turn in history %}…{% endfor %} into it, or set history_length=0"
            )
        response_parser(self.response_parser)
        if not isinstance(self.stop, tuple) or not all(isinstance(text, str) and text for text in self.stop):
            raise ValueError(f"stop={self.stop!r} must be a tuple of non-empty strings")
        if not isinstance(self.examples, tuple) or not all(map(_is_example, self.examples)):
            raise ValueError(
                f"examples={self.examples!r} must be a tuple of pairs of strings, (user message, response)"
            )


def _is_example(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and all(isinstance(text, str) and text for text in value)
