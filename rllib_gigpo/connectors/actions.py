"""Module-to-environment connectors: sampled token ids become the parsed action text that the environment takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from rllib_gigpo.agent_formats.response_parsers import ParsedResponse
from rllib_gigpo.columns import RESPONSE_IDS

RESPONSE_TEXT = "response_text"  # batch: str
PARSED_RESPONSE = "parsed_response"  # batch: ParsedResponse


class ResponseDecoder(ConnectorV2):
    """Decodes batch[RESPONSE_IDS] (int32[R]) into batch[RESPONSE_TEXT], without special tokens."""

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
        return batch | {RESPONSE_TEXT: rl_module.tokenizer.decode(batch[RESPONSE_IDS], skip_special_tokens=True)}


class ActionParser(ConnectorV2):
    """Parses batch[RESPONSE_TEXT] into batch[PARSED_RESPONSE]: the action, whether it is valid, and why not."""

    def __init__(self, *, parser: Callable[[str], ParsedResponse], **kwargs: Any):
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
        parsed = self.parser(batch[RESPONSE_TEXT])
        if not (isinstance(parsed, ParsedResponse) and isinstance(parsed.action, str)):
            raise TypeError(
                f"response_parser={getattr(self.parser, '__qualname__', self.parser)!r} returned {parsed!r}; it must "
                "return a ParsedResponse with a str as its action"
            )
        return batch | {PARSED_RESPONSE: parsed}
