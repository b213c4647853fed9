"""DAPO's soft over-long penalty."""

import numpy as np
import pytest

from rllib_gigpo.algorithms.dapo.overlong import overlong_penalties

pytestmark = pytest.mark.unit


def equation_13(length: int, l_max: int, l_cache: int) -> float:
    """R_length of the paper, case by case."""
    if length <= l_max - l_cache:
        return 0.0
    if length <= l_max:
        return ((l_max - l_cache) - length) / l_cache
    return -1.0


@pytest.mark.parametrize(("l_max", "l_cache"), [(20_480, 4096), (100, 20), (10, 10), (7, 1)])
def test_it_is_equation_13_with_its_sign_changed(l_max, l_cache):
    lengths = np.unique(np.linspace(1, l_max + 5, 300).astype(int))
    expected = [-equation_13(int(length), l_max, l_cache) for length in lengths]
    found = overlong_penalties(lengths, max_response_tokens=l_max, buffer_tokens=l_cache)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_it_rises_in_a_straight_line_to_the_penalty():
    penalties = overlong_penalties([80, 81, 90, 100], max_response_tokens=100, buffer_tokens=20, penalty=4.0)
    np.testing.assert_allclose(penalties, [0, 0.2, 2, 4])


def test_without_a_buffer_there_is_none():
    assert overlong_penalties([1, 100, 500], max_response_tokens=100, buffer_tokens=0).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"buffer_tokens": 101}, "buffer_tokens is 101; it must be from 0 to max_response_tokens, 100"),
        ({"buffer_tokens": -1}, "buffer_tokens is -1"),
        ({"buffer_tokens": 1, "penalty": -1.0}, "penalty is -1.0"),
        ({"buffer_tokens": 1, "response_lengths": [0.5]}, "response_lengths has dtype float64"),
    ],
)
def test_a_wrong_option_is_named(options, message):
    arguments = {"response_lengths": [1], "max_response_tokens": 100, **options}
    with pytest.raises(ValueError, match=message):
        overlong_penalties(arguments.pop("response_lengths"), **arguments)
