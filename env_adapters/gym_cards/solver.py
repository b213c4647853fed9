"""Formulas that reach a target from given numbers, by trying all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import combinations

# A formula as parts, as an agent writes them: ("(", "10", "-", "4", ")", "*", "4").
Parts = tuple[str, ...]


def solution(numbers: Sequence[int], *, target: int) -> Parts | None:
    """A formula of each of `numbers` once that equals `target`, by + - * / with exact division; None where none does.

    Which order the numbers have does not matter, and the answer is always the same one.
    """
    return _solution(tuple(sorted(numbers)), target)


@lru_cache(maxsize=4096)
def _solution(numbers: tuple[int, ...], target: int) -> Parts | None:
    return _search([(Fraction(number), (str(number),)) for number in numbers], target)


def _search(terms: list[tuple[Fraction, Parts]], target: int) -> Parts | None:
    """Joins two terms to one in every way, until a single one is left."""
    if len(terms) == 1:
        value, parts = terms[0]
        return parts if value == target else None
    for i, j in combinations(range(len(terms)), 2):
        others = [term for k, term in enumerate(terms) if k not in (i, j)]
        for joined in _joined(terms[i], terms[j]):
            found = _search([*others, joined], target)
            if found is not None:
                return found
    return None


def _joined(a: tuple[Fraction, Parts], b: tuple[Fraction, Parts]) -> Iterator[tuple[Fraction, Parts]]:
    for (x, left), (y, right) in ((a, b), (b, a)):
        yield x - y, (*_enclosed(left), "-", *_enclosed(right))
        if y != 0:
            yield x / y, (*_enclosed(left), "/", *_enclosed(right))
    (x, left), (y, right) = a, b
    yield x + y, (*_enclosed(left), "+", *_enclosed(right))
    yield x * y, (*_enclosed(left), "*", *_enclosed(right))


def _enclosed(parts: Parts) -> Parts:
    return parts if len(parts) == 1 else ("(", *parts, ")")
