"""The value of a formula that an agent wrote, by Python's integer arithmetic, without `eval`."""

from __future__ import annotations

import ast
import re

# Far above any formula of a game; keeps the parser's recursion and the numbers small.
MAX_CHARACTERS = 64
_FORMULA = re.compile(r"[0-9+* ]*")


def evaluate(formula: str) -> int | None:
    """The integer that Python computes for `formula`, or None where it is not a formula.

    A formula holds integers, `+` (between two values, or as a sign), `*`, and spaces. Digits that touch are one number
    ("1" followed by "2" is 12), a number does not start with 0, and a space parts numbers ("1 2" has no value).
    Anything else has no value, `**` included, although Python knows it; nor has a text beyond `MAX_CHARACTERS`.
    """
    if len(formula) > MAX_CHARACTERS or not _FORMULA.fullmatch(formula):
        return None
    try:
        # Leading spaces would be an indentation error to the parser; `eval` drops them, too.
        return _value(ast.parse(formula.lstrip(" "), mode="eval").body)
    except (SyntaxError, _NoValueError):
        return None


class _NoValueError(Exception):
    """The formula parses, but holds something else than integers, + and *: a power."""


def _value(node: ast.expr) -> int:
    match node:
        case ast.Constant(value=int() as value):
            return value
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _value(operand)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _value(left) + _value(right)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _value(left) * _value(right)
    raise _NoValueError
