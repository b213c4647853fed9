"""What the registry knows about an environment before anything of it is imported."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rllib_gigpo.agent_formats import AgentFormat


@dataclass(frozen=True)
class EnvironmentEntry:
    """An environment by name, with the agent format and the embedded models that go with it.

    Attributes:
        name: The name for `config.environment(name)`.
        entry_point: "module:Class" of a `gymnasium.Env`; imported by `load`, not before.
        agent_format: How its observations become prompts and responses actions; a config can replace it.
        embedded_model: Directory of a tiny model that comes with the environment, or None.
        image_agent_format: Replaces `agent_format` where the environment shows pictures; None: it fits both.
        embedded_image_model: Directory of a tiny vision-language model for its pictures, or None.
        small_env_config: Keyword arguments of the class with which `rllib train --smoke` tries things out: few steps,
            little data, nothing that has to be downloaded.
        machine_check: "module:function" of what `rllib doctor` asks about the environment's packages and data, a
            function without arguments to an iterable of `CheckResult`; "" where there is nothing to ask.
    """

    name: str
    entry_point: str
    agent_format: AgentFormat
    embedded_model: Path | None = None
    image_agent_format: AgentFormat | None = None
    embedded_image_model: Path | None = None
    small_env_config: Mapping[str, Any] = field(default_factory=dict)
    machine_check: str = ""

    def __post_init__(self) -> None:
        module, _, attribute = self.entry_point.partition(":")
        if not module or not attribute:
            raise ValueError(
                f"environment {self.name!r}: entry_point is {self.entry_point!r}, it must be 'module:Class', "
                f"for example 'rllib_gigpo.env_adapters.gym_cards.ezpoints:EZPointsEnv'"
            )

    def agent_format_of(self, env_config: Mapping[str, Any]) -> AgentFormat:
        """The agent format that goes with these options: of the pictures where `observation` is "image"."""
        return (shows_images(env_config) and self.image_agent_format) or self.agent_format

    def embedded_model_of(self, env_config: Mapping[str, Any]) -> Path | None:
        """The embedded model that goes with these options, or None."""
        return self.embedded_image_model if shows_images(env_config) else self.embedded_model

    def load(self) -> type[Any]:
        """The environment's class. Raises ImportError where the environment's own packages are not installed."""
        loaded: type[Any] = pkgutil.resolve_name(self.entry_point)
        return loaded

    def make(self, **options: Any) -> Any:
        """A new environment; `options` are the keyword arguments of its class."""
        return self.load()(**options)


def shows_images(env_config: Mapping[str, Any]) -> bool:
    """Whether an environment with these options shows pictures."""
    return env_config.get("observation") == "image"
