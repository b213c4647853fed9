"""What is said of an environment that cannot be made, or that does not say what it shows."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import pytest
from gymnasium import spaces

from rllib_gigpo.env_runners.environment_worker import CreatorContext, create_environment, described

pytestmark = pytest.mark.unit


class Lamps(gym.Env[str, str]):
    def __init__(self, *, num_lamps: int = 3) -> None:
        self.observation_space = spaces.Text(10)


def make_lamps(config: dict[str, Any]) -> Lamps:
    return Lamps(**config)


@pytest.mark.parametrize(
    ("create", "env_config", "cause"),
    [(make_lamps, {"num_lamp": 3}, "unexpected keyword argument 'num_lamp'"), (Lamps, {}, "positional argument")],
)
def test_options_that_it_does_not_take_are_named(create: Any, env_config: dict[str, Any], cause: str) -> None:
    with pytest.raises(TypeError, match=rf"cannot be made with env_config=.*{cause}.*gets env_config as its only"):
        create_environment(create, CreatorContext(env_config, worker_index=0, num_workers=1))


def test_a_space_that_is_missing_is_named() -> None:
    with pytest.raises(TypeError, match="environment Lamps has no action_space: set it in __init__"):
        described(Lamps())


def test_actions_that_are_no_texts_are_refused() -> None:
    env = Lamps()
    env.action_space = spaces.Discrete(3)
    with pytest.raises(TypeError, match=r"environment Lamps has action_space=Discrete\(3\); an action is the text"):
        described(env)
    env.action_space = spaces.Text(10)
    assert described(env).action_space == spaces.Text(10)
