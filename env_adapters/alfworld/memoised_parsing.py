"""TextWorld without parsing the same text again and again: the same texts and commands, several times faster.

TextWorld writes an observation by a grammar whose rules it parses anew with every use, and translates the planning
problem of a game anew, twice, with every load and every reset.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import Any, NamedTuple

from rllib_gigpo.env_adapters.alfworld.packages import Packages

# A game brings a few texts of its own, its task above all; a runner plays a few games at a time.
_TEXTS = 4096
_PROBLEMS = 32


class _Memoised(NamedTuple):
    parse_text: Callable[..., Any]
    parse_query: Any  # a classmethod
    translate: Callable[..., Any]


@contextmanager
def memoised_parsing(packages: Packages) -> Iterator[None]:
    """Within it, TextWorld's parsing functions remember their results; afterwards they are as before.

    They are functions of modules, so this must not be entered by two threads at once.
    """
    memoised = _memoised(packages)
    textgen, rule, fast_downward = packages.textgen, packages.logic.Rule, packages.fast_downward
    before = textgen._parse_and_convert, rule.__dict__["parse_conjunctive_query"], fast_downward.pddl2sas
    textgen._parse_and_convert, rule.parse_conjunctive_query, fast_downward.pddl2sas = memoised
    try:
        yield
    finally:
        textgen._parse_and_convert, rule.parse_conjunctive_query, fast_downward.pddl2sas = before
        for parser in (textgen._PARSER, packages.pddl.pddl_logic._PARSER, packages.logic._PARSER):
            # It keeps the last exception of its backtracking, and so every frame below and all that lives in them.
            parser._furthest_exception = None


@cache
def _memoised(packages: Packages) -> _Memoised:
    textgen, parse_query = packages.textgen, packages.logic.Rule.parse_conjunctive_query.__func__
    translate = packages.fast_downward.pddl2sas

    @lru_cache(_TEXTS)
    def model(text: str, rule_name: str) -> Any:
        return textgen._PARSER.parse(text, rule_name=rule_name)

    def parse_text(text: str, rule_name: str = "symbols", trace: bool = False) -> Any:
        # The caller fills in the symbols that come of it, so these have to be new; the model stays as it is.
        return textgen._Converter().walk(model(text, rule_name))

    @lru_cache(_TEXTS)
    def query(expression: str) -> Any:
        return parse_query(packages.logic.Rule, expression)

    def remembered_query(cls: type, expression: str) -> Any:
        return query(expression)

    @lru_cache(_PROBLEMS)
    def remembered_translation(domain: str, problem: str, verbose: bool = False, optimize: bool = False) -> Any:
        arguments = sys.argv
        try:
            return translate(domain, problem, verbose=verbose, optimize=optimize)
        finally:
            sys.argv = arguments  # which the translator overwrites

    return _Memoised(parse_text, classmethod(remembered_query), remembered_translation)
