"""What an engine did."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class EngineStats:
    """What an engine did since its statistics were last taken.

    Attributes:
        batches: Batches sampled.
        rows: Responses sampled.
        prompt_tokens: Tokens of their prompts, padding and shared prefills not considered.
        response_tokens: Tokens sampled.
        seconds: Wall-clock seconds spent sampling.
    """

    batches: int = 0
    rows: int = 0
    prompt_tokens: int = 0
    response_tokens: int = 0
    seconds: float = 0.0
