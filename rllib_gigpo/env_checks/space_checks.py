"""Are the spaces texts, and do they hold what the environment shows; and what Gymnasium's and RLlib's checkers say."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env

from rllib_gigpo.columns import ADMISSIBLE_ACTIONS
from rllib_gigpo.env_checks.check_result import (
    CheckResult,
    described_error,
    failed,
    not_applicable,
    one_line,
    passed,
    warned,
)
from rllib_gigpo.env_checks.player import Player, agent_prefix
from rllib_gigpo.env_checks.recording import Trajectory

_TEXT_FIX = (
    "declare spaces.Text(max_length=…, charset=frozenset(string.printable)); Gymnasium's default charset is letters "
    "and digits alone"
)
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def check_spaces(player: Player, trajectories: Sequence[Trajectory]) -> CheckResult:
    """Observations are Text or Dict(text, image), actions Text, and the spaces hold all that was seen."""
    by_agent = player.spaces()
    if player.is_multi_agent and not any(space for pair in by_agent.values() for space in pair):
        return not_applicable("spaces", "a MultiAgentEnv that declares none; training needs none")
    for agent, (observation_space, action_space) in by_agent.items():
        prefix = agent_prefix(agent)
        if wrong := _wrong_observation_space(observation_space):
            return failed("spaces", f"{prefix}observation_space {wrong}", _TEXT_FIX)
        if not isinstance(action_space, spaces.Text):
            return failed(
                "spaces", f"{prefix}action_space is {one_line(action_space, 80)}", "the action is a text: " + _TEXT_FIX
            )
    seen = 0
    for trajectory in trajectories:
        for moment in trajectory.moments:
            for agent, observation in moment.observations.items():
                seen += 1
                if outside := _outside(by_agent[agent][0], observation):
                    return failed("spaces", f"{agent_prefix(agent)}observation {outside}", _TEXT_FIX)
            for agent, info in moment.infos.items():
                for action in info.get(ADMISSIBLE_ACTIONS) or ():
                    if isinstance(action, str) and (outside := _outside(by_agent[agent][1], action)):
                        return failed("spaces", f"{agent_prefix(agent)}admissible action {outside}", _TEXT_FIX)
    first = next(iter(by_agent.values()))[0]
    kind = "Dict(text, image)" if isinstance(first, spaces.Dict) else "Text"
    return passed("spaces", f"{kind} observations and Text actions; {seen} observations lie in their space")


def check_api(player: Player) -> CheckResult:
    """What Gymnasium's `check_env`, or for a MultiAgentEnv RLlib's checker, finds."""
    name = "rllib check_env" if player.is_multi_agent else "gymnasium check_env"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            if player.is_multi_agent:
                from ray.rllib.utils.pre_checks.env import check_multiagent_environments

                check_multiagent_environments(player.env.unwrapped)
            else:
                check_env(player.env.unwrapped, skip_render_check=True, skip_close_check=True)
        # The checkers assert and raise, and the environment may raise anything.
        except Exception as error:
            cause = f" ({described_error(error.__cause__)})" if error.__cause__ is not None else ""
            fix = "reset() must also work without a task, and answers must be as the API says"
            return failed(name, described_error(error) + cause, fix)
    # Gymnasium colours its warnings.
    messages = [one_line(_COLOURS.sub("", str(w.message))) for w in caught if "gymnasium" in w.filename]
    if messages:
        return warned(name, messages[0], "see Gymnasium's documentation of gymnasium.Env")
    return passed(name, "nothing to say")


def _wrong_observation_space(space: Any) -> str:
    """What is wrong with it; "" where nothing is."""
    if isinstance(space, spaces.Text):
        return ""
    if not isinstance(space, spaces.Dict):
        return f"is {one_line(space, 80)}; it must be Text, or Dict(text, image)"
    if set(space.spaces) != {"text", "image"}:
        return f"is a Dict of {sorted(space.spaces)}; it must have the keys 'text' and 'image'"
    image = space["image"]
    if not isinstance(space["text"], spaces.Text):
        return f"['text'] is {one_line(space['text'], 80)}; it must be Text"
    is_image = isinstance(image, spaces.Box) and image.dtype == np.uint8 and len(image.shape) == 3
    return "" if is_image else f"['image'] is {one_line(image, 80)}; it must be a uint8 Box of height, width, channels"


def _outside(space: Any, value: Any) -> str:
    """How `value` lies outside of `space`; "" where it does not."""
    if space.contains(value):
        return ""
    if isinstance(space, spaces.Dict) and isinstance(value, dict) and set(value) == set(space.spaces):
        return next(f"[{key!r}] {found}" for key in value if (found := _outside(space[key], value[key])))
    if isinstance(space, spaces.Text) and isinstance(value, str):
        return f"{one_line(repr(value), 60)} {_outside_of_text(space, value)}"
    if isinstance(value, np.ndarray):
        return f"is an array {value.dtype}{list(value.shape)}, which is not in {one_line(space, 60)}"
    return f"is {one_line(repr(value), 60)} ({type(value).__name__}), which is not in {one_line(space, 60)}"


def _outside_of_text(space: gym.spaces.Text, value: str) -> str:
    strange = sorted(set(value) - set(space.characters))
    if strange:
        return f"holds {''.join(strange[:10])!r}, which the charset of its space lacks"
    return f"has {len(value)} characters; its space holds {space.min_length} to {space.max_length}"
