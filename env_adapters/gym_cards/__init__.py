"""The four games of Gym Cards (Zhai et al. 2024), as text or as images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rllib_gigpo.agent_formats import AgentFormat, OneOf
from rllib_gigpo.env_adapters.gym_cards.prompts import (
    BLACKJACK_PROMPT,
    EZPOINTS_PROMPT,
    NUMBERLINE_PROMPT,
    POINTS24_PROMPT,
)
from rllib_gigpo.environment_entry import EnvironmentEntry

# `env_config` of the pictures that the embedded vision-language model was warmed up on.
SMALL_PICTURES: dict[str, Any] = {"observation": "image", "image_size": 56}

_IMAGE_MODEL = Path(__file__).parent / "embedded_models" / "cards_image"

NUMBERLINE = EnvironmentEntry(
    name="NumberLine",
    entry_point="rllib_gigpo.env_adapters.gym_cards.number_line:NumberLine",
    agent_format=AgentFormat(prompt_template=NUMBERLINE_PROMPT),
    embedded_image_model=_IMAGE_MODEL,
)
EZPOINTS = EnvironmentEntry(
    name="EZPoints",
    entry_point="rllib_gigpo.env_adapters.gym_cards.ezpoints:EZPoints",
    agent_format=AgentFormat(prompt_template=EZPOINTS_PROMPT),
    embedded_model=Path(__file__).parent / "embedded_models" / "ezpoints",
    embedded_image_model=_IMAGE_MODEL,
)
POINTS24 = EnvironmentEntry(
    name="Points24",
    entry_point="rllib_gigpo.env_adapters.gym_cards.points24:Points24",
    agent_format=AgentFormat(prompt_template=POINTS24_PROMPT),
)
BLACKJACK = EnvironmentEntry(
    name="Blackjack",
    entry_point="rllib_gigpo.env_adapters.gym_cards.blackjack:Blackjack",
    agent_format=AgentFormat(prompt_template=BLACKJACK_PROMPT, response_parser=OneOf(("hit", "stand"))),
)
