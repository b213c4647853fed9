import numpy as np
import pytest

from rllib_gigpo.env_runners.environment_answers import (
    EnvironmentAnswerError,
    check_anchor_state,
    check_reset,
    check_step,
)

pytestmark = pytest.mark.unit


def test_a_good_answer_comes_back_with_python_types():
    assert check_reset(("room", {})) == ("room", {})
    check_step(("room", 1.0, False, False, {"is_action_valid": np.bool_(True)}))
    answer = check_step(("room", np.float32(0.5), np.bool_(True), False, {"won": True}))
    assert answer == ("room", 0.5, True, False, {"won": True})
    assert [type(value) for value in answer] == [str, float, bool, bool, dict]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (("room", 0.0, False, {}), "it must return"),
        (None, "it must return"),
        ((3, 0.0, False, False, {}), "observation 3 \\(int\\)"),
        (("room", "much", False, False, {}), "reward 'much'"),
        (("room", float("nan"), False, False, {}), "reward nan"),
        (("room", None, False, False, {}), "reward None"),
        (("room", 0.0, 1, False, {}), "terminated=1"),
        (("room", 0.0, False, None, {}), "truncated=None"),
        (("room", 0.0, False, False, None), "info None"),
        (("room", 0.0, False, False, {"admissible_actions": "look go"}), "admissible_actions='look go'"),
        (("room", 0.0, False, False, {"is_action_valid": "yes"}), "is_action_valid='yes' .*must be a bool"),
        (("room \ud800", 0.0, False, False, {}), "not valid Unicode"),
    ],
)
def test_a_wrong_step_answer_is_named(answer, message):
    with pytest.raises(EnvironmentAnswerError, match=message):
        check_step(answer)


def test_an_anchor_state_is_in_every_info_or_in_none():
    with_state, without = {"anchor_state": np.zeros(2)}, {"won": False}
    check_anchor_state(with_state, with_state)
    check_anchor_state(without, {"anchor_state": None})
    for first, info, has in ((with_state, without, "reset"), (without, with_state, "step")):
        with pytest.raises(EnvironmentAnswerError, match=rf"info of {has}\(\) has 'anchor_state'"):
            check_anchor_state(first, info)


@pytest.mark.parametrize("answer", ["room", ("room",), (b"room", {}), ("room", [])])
def test_a_wrong_reset_answer_is_refused(answer):
    with pytest.raises(EnvironmentAnswerError):
        check_reset(answer)
