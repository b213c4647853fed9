"""From options of `rllib evaluate --agent` to the engine and the agent format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rllib_gigpo import registry
from rllib_gigpo.agent_formats import AgentFormat, HistoryLength, PromptTemplate, check_parser, template_source
from rllib_gigpo.environments import check_environment, default_agent_format
from rllib_gigpo.inference.chat import ChatEngine

_EMBEDDED = "embedded"


def chat_engine(engine: str, model: str, base_url: str | None, options: Mapping[str, Any], env: str) -> ChatEngine:
    """The engine "openai" or "hf".

    Raises:
        ValueError: An option is unknown, wrong, missing or of the other engine; the model cannot be loaded.
    """
    if engine == "hf":
        from rllib_gigpo.inference.hf_chat import HFChat

        return HFChat.of_directory(_directory(model, env), options)
    from rllib_gigpo.inference.openai_engine import OpenAIEngine
    from rllib_gigpo.inference.openai_options import OpenAIOptions

    if base_url is None:
        raise ValueError("--base-url is missing: the address of the server, like http://localhost:8000/v1")
    return OpenAIEngine(base_url, model, OpenAIOptions.of(options))


def changed_agent_format(
    env: str, prompt_template: str | None, history_length: str | None, parser: str | None
) -> AgentFormat:
    """The environment's agent format, with what the options change. Raises ValueError for what cannot work."""
    check_environment(env)
    changed = default_agent_format(env)
    if prompt_template is not None:
        source = template_source(prompt_template)
        length: HistoryLength = changed.history_length if PromptTemplate(source).shows_history else 0
        changed = replace(changed, prompt_template=source, history_length=length)
    if history_length is not None:
        changed = replace(changed, history_length=_history_length(history_length))
    if parser is not None:
        changed = replace(changed, response_parser=parser)
    check_parser(changed.response_parser)
    return changed


def _history_length(text: str) -> HistoryLength:
    if text == "full":
        return "full"
    if not text.isdecimal():
        raise ValueError(f"--history-length {text} must be an integer of at least 0, or full")
    return int(text)


def _directory(model: str, env: str) -> str:
    if model != _EMBEDDED:
        return model
    path = registry.environment(env).embedded_model
    if path is None:
        raise ValueError(f"--model embedded: environment {env!r} ships no model; give the directory of one")
    return str(path)
