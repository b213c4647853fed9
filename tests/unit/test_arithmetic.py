"""Formulas are computed as Python computes them, and nothing but formulas is."""

from __future__ import annotations

import warnings
from itertools import product

import pytest

from rllib_gigpo.env_adapters.gym_cards.arithmetic import MAX_CHARACTERS, evaluate

pytestmark = pytest.mark.unit

# What an agent can put into a formula: the numbers and operators of EZPoints, and the blank of the rl4vlm scheme.
PARTS = ("1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "+", "*", " ")


def python_value(formula: str) -> int | None:
    """What Python says, with an empty namespace; the strings here hold digits, +, * and spaces alone."""
    assert set(formula) <= set("0123456789+* ")
    if "**" in formula.replace(" ", ""):
        return None  # Python knows powers, EZPoints does not.
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            return eval(formula, {"__builtins__": {}})
    except SyntaxError:
        return None


@pytest.mark.parametrize("length", [0, 1, 2, 3, 4])
def test_every_short_formula_has_pythons_value(length: int) -> None:
    for parts in product(PARTS, repeat=length):
        formula = "".join(parts)
        assert evaluate(formula) == python_value(formula), formula


@pytest.mark.parametrize(
    ("formula", "value"),
    [
        ("10+2", 12),
        ("2*6", 12),
        ("2+2*5", 12),  # * binds tighter
        ("+10++2", 12),  # signs
        ("1" + "2", 12),  # digits that touch are one number
        ("  10 + 2", 12),
        ("1 2", None),
        ("", None),
        ("+", None),
        ("10+", None),
        ("*10", None),
        ("012", None),
        ("2**3", None),
        ("2* *3", None),
        ("14-2", None),
        ("24/2", None),
        ("24//2", None),
        ("12.0", None),
        ("1_2", None),
        ("12j", None),
        ("(12)", None),
        ("True", None),
        ("'12'", None),
        ("[12]", None),
        ("x", None),
        ("__import__('os')", None),
        ("12 if 1 else 2", None),
        ("12;12", None),
        ("12\0", None),
        ("1\n2", None),
    ],
)
def test_only_sums_and_products_of_integers_have_a_value(formula: str, value: int | None) -> None:
    assert evaluate(formula) == value


def test_a_long_formula_has_no_value() -> None:
    longest = "+" * (MAX_CHARACTERS - 1) + "1"
    assert evaluate(longest) == 1
    assert evaluate("+" + longest) is None
    assert evaluate("+" * 1_000_000) is None
