"""How an agent reads and answers: prompt template, memory, response grammar and parser."""

from rllib_gigpo.agent_formats.agent_format import AgentFormat, HistoryLength
from rllib_gigpo.agent_formats.chat import answer_prefix, encode_prompt
from rllib_gigpo.agent_formats.json_parser import json_action
from rllib_gigpo.agent_formats.parsed_response import ParsedResponse, ResponseParser
from rllib_gigpo.agent_formats.prompt_template import PromptTemplate, Turn, template_source
from rllib_gigpo.agent_formats.response_parsers import (
    RESPONSE_PARSERS,
    OneOf,
    ResponseParserError,
    check_parser,
    parse,
    response_parser,
)
from rllib_gigpo.agent_formats.tag_parsers import first_action, think_action

__all__ = [
    "RESPONSE_PARSERS",
    "AgentFormat",
    "HistoryLength",
    "OneOf",
    "ParsedResponse",
    "PromptTemplate",
    "ResponseParser",
    "ResponseParserError",
    "Turn",
    "answer_prefix",
    "check_parser",
    "encode_prompt",
    "first_action",
    "json_action",
    "parse",
    "response_parser",
    "template_source",
    "think_action",
]
