"""What a group of env runners does where one of them does not answer."""

from __future__ import annotations

from typing import Any

import pytest

from rllib_gigpo.env_runners.runner_group import RunnerGroup

pytestmark = pytest.mark.unit


def test_an_engine_that_does_not_fall_asleep_is_not_waited_for() -> None:
    """Of two, of which one hangs; stands for their processes."""
    runners: Any = object.__new__(RunnerGroup)
    runners._answer_timeout_s = 7
    runners.alive = lambda: [1, 2]
    asked: list[Any] = []
    runners.call = lambda method, kwargs, timeout_s=None: asked.append((method, timeout_s)) or {1: None}
    with pytest.raises(RuntimeError, match=r"env runners \[2\] do not sleep after 7 s"):
        runners.sleep(1)
    assert asked == [("sleep", 7)]
