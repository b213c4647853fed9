"""Where an OpenAI-compatible server is, and how patient to be with it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any
from urllib.parse import urlsplit

# Of a chat request, by what follows from the rest of a run.
_OWN_FIELDS = ("messages", "model", "n", "stream")


@dataclass(frozen=True)
class OpenAIOptions:
    """How an `OpenAIEngine` deals with its server.

    Attributes:
        timeout_s: Of one attempt, from the connection to the last byte of the answer, seconds.
        max_retries: Attempts beyond the first, of each request.
        first_wait_s: Before the first retry, seconds; doubles with each further one, less up to half of it, drawn from
            the request's seed.
        longest_wait_s: A wait is never longer, whatever a server's Retry-After says, seconds.
        requests_per_minute: No more attempts are started; None for no limit.
        give_up_after: So many requests in a row, each with all of its retries, without an answer, end the run.
        max_prompt_characters: A longer prompt loses its oldest history; None for no limit.
        extra_body: More fields of every request, such as {"reasoning_effort": "low"}; null takes one out.
        answer_prefix: What the server's chat template has written of every answer before the model begins, such as
            "<think>", and the server leaves out.
        api_key_env: Name of the environment variable that holds the key. Where it is not set, none is sent.

    Raises:
        ValueError: A value cannot work; the message names it.
    """

    timeout_s: float = 120.0
    max_retries: int = 5
    first_wait_s: float = 1.0
    longest_wait_s: float = 60.0
    requests_per_minute: float | None = None
    give_up_after: int = 8
    max_prompt_characters: int | None = None
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    answer_prefix: str = ""
    api_key_env: str = "OPENAI_API_KEY"

    def __post_init__(self) -> None:
        _check_number("timeout_s", self.timeout_s, above=0)
        _check_number("max_retries", self.max_retries, least=0, whole=True)
        _check_number("first_wait_s", self.first_wait_s, least=0)
        _check_number("longest_wait_s", self.longest_wait_s, least=0)
        _check_number("give_up_after", self.give_up_after, least=1, whole=True)
        if self.requests_per_minute is not None:
            _check_number("requests_per_minute", self.requests_per_minute, above=0)
        if self.max_prompt_characters is not None:
            _check_number("max_prompt_characters", self.max_prompt_characters, least=1, whole=True)
        if not isinstance(self.extra_body, Mapping) or not all(isinstance(name, str) for name in self.extra_body):
            raise ValueError(f"extra_body is {self.extra_body!r}; it must be an object with names as its keys")
        if taken := sorted(set(self.extra_body).intersection(_OWN_FIELDS)):
            raise ValueError(f"extra_body sets {taken}, which the engine sets itself; leave it out")
        if not isinstance(self.answer_prefix, str):
            raise ValueError(f"answer_prefix is {self.answer_prefix!r}; it must be a text")
        if not isinstance(self.api_key_env, str) or not self.api_key_env.isidentifier():
            # The value is not repeated: it may well be the key itself.
            raise ValueError("api_key_env must be the name of an environment variable, not the key")

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> OpenAIOptions:
        """The options of that mapping. Raises ValueError for an unknown one."""
        known = [one.name for one in fields(cls)]
        if unknown := sorted(set(options) - set(known)):
            raise ValueError(f"the openai engine has no options {unknown}; there are {', '.join(known)}")
        return cls(**options)

    def api_key(self) -> str | None:
        """The key, from the environment; it is kept nowhere else."""
        return os.environ.get(self.api_key_env) or None


def check_base_url(base_url: str) -> str:
    """The address without a slash at its end.

    Raises:
        ValueError: It is no http or https address of a host, or holds a password, a query or a fragment.
    """
    try:
        parts = urlsplit(base_url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise ValueError(f"base_url is {base_url!r}, which is no address: {error}") from error
    if parts.username is not None or parts.password is not None:
        raise ValueError("base_url holds a user name or a password; the key belongs into the environment")
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
        raise ValueError(f"base_url is {base_url!r}; it must be like http://localhost:8000/v1")
    return base_url.rstrip("/")


def _check_number(
    name: str, value: Any, *, least: float | None = None, above: float | None = None, whole: bool = False
) -> None:
    is_number = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
    if not is_number or (least is not None and not value >= least) or (above is not None and not value > above):
        kind = "an integer" if whole else "a number"
        raise ValueError(
            f"{name} is {value!r}; it must be {kind} {f'of at least {least}' if above is None else f'above {above}'}"
        )
