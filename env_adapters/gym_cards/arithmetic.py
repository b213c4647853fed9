"""The value of a formula that an agent wrote, by exact arithmetic, without `eval`."""

from __future__ import annotations

import ast
import re
from fractions import Fraction

# Far above any formula of a game; keeps the parser's recursion and the numbers small.
MAX_CHARACTERS = 64
_FORMULA = re.compile(r"[-0-9+*/() ]*")


def evaluate(formula: str) -> Fraction | None:
    """The value of `formula`, or None where it is not a formula.

    A formula holds integers, `+` and `-` (between two values, or as a sign), `*`, `/`, parentheses and spaces, with
    Python's precedence. Digits that touch are one number ("1" followed by "2" is 12), a number does not start with 0,
    and a space parts numbers ("1 2" has no value). Division is exact: 8/(3-8/3) is 24, which floating point misses.
    Anything else has no value, a division by zero, `**` and `//` included; nor has a text beyond `MAX_CHARACTERS`.
    """
    if len(formula) > MAX_CHARACTERS or not _FORMULA.fullmatch(formula):
        return None
    try:
        # Leading spaces would be an indentation error to the parser; `eval` drops them, too.
        return _value(ast.parse(formula.lstrip(" "), mode="eval").body)
    except (SyntaxError, ZeroDivisionError, _NoValueError):
        return None


class _NoValueError(Exception):
    """The formula parses, but holds something else than integers and the four operations: a power, a call, a tuple."""


def _value(node: ast.expr) -> Fraction:
    match node:
        case ast.Constant(value=int() as value):
            return Fraction(value)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _value(operand)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _value(left) + _value(right)
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            return _value(left) - _value(right)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _value(left) * _value(right)
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            return _value(left) / _value(right)
    raise _NoValueError
