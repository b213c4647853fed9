"""Formulas are computed as Python computes them, and nothing but formulas is."""

from __future__ import annotations

import warnings
from itertools import product

import pytest

from rllib_gigpo.env_adapters.gym_cards.arithmetic import MAX_CHARACTERS, evaluate

pytestmark = pytest.mark.unit

# What an agent can put into a formula: the numbers and operators of EZPoints, and the blank of the rl4vlm scheme.
EZPOINTS_PARTS = ("1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "+", "*", " ")
POINTS24_PARTS = ("2", "3", "10", "+", "-", "*", "/", "(", ")", " ")


def python_value(formula: str) -> float | None:
    """What Python says, with an empty namespace; the strings here hold digits, operators and spaces alone."""
    assert set(formula) <= set("0123456789+-*/() ")
    if "**" in formula.replace(" ", "") or "//" in formula.replace(" ", ""):
        return None  # Python knows powers and floor division, the games do not.
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            value = eval(formula, {"__builtins__": {}})
    except (SyntaxError, TypeError, ZeroDivisionError):
        return None
    return value if isinstance(value, int | float) else None  # () is a tuple


@pytest.mark.parametrize(
    ("parts", "length"), [*((EZPOINTS_PARTS, n) for n in range(5)), *((POINTS24_PARTS, n) for n in range(5))]
)
def test_every_short_formula_has_pythons_value(parts: tuple[str, ...], length: int) -> None:
    for chosen in product(parts, repeat=length):
        formula = "".join(chosen)
        value, expected = evaluate(formula), python_value(formula)
        # Division is exact here, and rounded there.
        assert value == expected or float(value) == pytest.approx(expected, rel=1e-12), formula


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
        ("14-2", 12),
        ("-2+14", 12),
        ("2--10", 12),
        ("24/2", 12),
        ("(12)", 12),
        ("(2+4)*(3-1)", 12),
        ("12/8*8", 12),
        ("8/(3-8/3)", 24),  # in floating point 23.99…
        ("24/(3-3)", None),
        ("24/0", None),
        ("()", None),
        ("(12", None),
        ("3(4)", None),
        ("(3)(4)", None),
        ("()()", None),
        ("24//2", None),
        ("12.0", None),
        ("1_2", None),
        ("12j", None),
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
def test_only_the_four_operations_on_integers_have_a_value(formula: str, value: int | None) -> None:
    assert evaluate(formula) == value


def test_a_long_formula_has_no_value() -> None:
    longest = "+" * (MAX_CHARACTERS - 1) + "1"
    assert evaluate(longest) == 1
    assert evaluate("+" + longest) is None
    assert evaluate("+" * 1_000_000) is None
    assert evaluate("(" * 31 + "1" + ")" * 31) == 1
