"""How an agent reads and answers: prompt template, memory, response grammar and parser."""

from rllib_gigpo.agent_formats.agent_format import AgentFormat
from rllib_gigpo.agent_formats.chat import encode_prompt
from rllib_gigpo.agent_formats.prompt_template import PromptTemplate, Turn
from rllib_gigpo.agent_formats.response_parsers import (
    RESPONSE_PARSERS,
    ParsedResponse,
    ResponseParser,
    response_parser,
    think_action,
)

__all__ = [
    "RESPONSE_PARSERS",
    "AgentFormat",
    "ParsedResponse",
    "PromptTemplate",
    "ResponseParser",
    "Turn",
    "encode_prompt",
    "response_parser",
    "think_action",
]
