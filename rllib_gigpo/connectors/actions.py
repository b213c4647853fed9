"""Module-to-environment connectors: sampled token ids become the parsed action text that the environment takes."""

from __future__ import annotations

from typing import Any

from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from rllib_gigpo.agent_formats.chat import answer_prefix
from rllib_gigpo.agent_formats.parsed_response import ResponseParser
from rllib_gigpo.agent_formats.response_parsers import parse
from rllib_gigpo.columns import RESPONSE_IDS

RESPONSE_TEXT = "response_text"  # batch: str
PARSED_RESPONSE = "parsed_response"  # batch: ParsedResponse


class ResponseDecoder(ConnectorV2):
    """Decodes batch[RESPONSE_IDS] (int32[R]) into batch[RESPONSE_TEXT], without special tokens.

    Where the chat template has begun the answer with "<think>", the text begins with that, too: the model then writes
    the closing tag alone.
    """

    def __call__(
        self,
        *,
        rl_module: Any,
        batch: dict[str, Any],
        episodes: list[SingleAgentEpisode],
        explore: bool | None = None,
        shared_data: dict[str, Any] | None = None,
        metrics: Any = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        tokenizer = rl_module.tokenizer
        text = answer_prefix(tokenizer) + tokenizer.decode(batch[RESPONSE_IDS], skip_special_tokens=True)
        return batch | {RESPONSE_TEXT: text}


class ActionParser(ConnectorV2):
    """Parses batch[RESPONSE_TEXT] into batch[PARSED_RESPONSE]: the action, whether it is valid, and why not.

    Raises ResponseParserError where the parser raises, or returns no ParsedResponse.
    """

    def __init__(self, *, parser: ResponseParser, **kwargs: Any):
        super().__init__(**kwargs)
        self.parser = parser

    def __call__(
        self,
        *,
        rl_module: Any,
        batch: dict[str, Any],
        episodes: list[SingleAgentEpisode],
        explore: bool | None = None,
        shared_data: dict[str, Any] | None = None,
        metrics: Any = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        return batch | {PARSED_RESPONSE: parse(self.parser, batch[RESPONSE_TEXT])}
