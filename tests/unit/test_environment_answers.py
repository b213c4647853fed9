import numpy as np
import pytest

from rllib_gigpo.env_runners.environment_answers import EnvironmentAnswerError, check_reset, check_step

pytestmark = pytest.mark.unit


def test_a_good_answer_comes_back_with_python_types():
    assert check_reset(("room", {})) == ("room", {})
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
        (("room \ud800", 0.0, False, False, {}), "not valid Unicode"),
    ],
)
def test_a_wrong_step_answer_is_named(answer, message):
    with pytest.raises(EnvironmentAnswerError, match=message):
        check_step(answer)


@pytest.mark.parametrize("answer", ["room", ("room",), (b"room", {}), ("room", [])])
def test_a_wrong_reset_answer_is_refused(answer):
    with pytest.raises(EnvironmentAnswerError):
        check_reset(answer)
