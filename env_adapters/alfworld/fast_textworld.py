"""TextWorld without doing the same work again and again: the same texts and commands, many times faster.

TextWorld writes an observation by a grammar. With every use it parses the grammar's rules anew and copies all that it
knows of the things in them, deeply. With every load it parses the whole grammar of a game, and with every load and
every reset it translates the game's planning problem, twice.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import Any, NamedTuple

from rllib_gigpo.env_adapters.alfworld.packages import Packages

# A game brings a few texts of its own, its task above all; a runner plays a few games at a time.
_TEXTS = 256
_GAMES = 32
# Facts and variables that TextWorld may keep: a game has a few hundred.
_FACTS = 10_000


class _Replacement(NamedTuple):
    owner: Any  # a module or class
    name: str
    value: Any


@contextmanager
def fast_textworld(packages: Packages) -> Iterator[None]:
    """Within it, functions of TextWorld are replaced by faster ones; afterwards they are as before.

    They are attributes of modules, so this must not be entered by two threads at once.
    """
    replacements = _replacements(packages)
    before = [_Replacement(owner, name, owner.__dict__[name]) for owner, name, _ in replacements]
    _put(replacements)
    try:
        yield
    finally:
        _put(before)
        for parser in (packages.textgen._PARSER, packages.pddl.pddl_logic._PARSER, packages.logic._PARSER):
            # It keeps the last exception of its backtracking, and so every frame below and all that lives in them.
            parser._furthest_exception = None


def forget_facts(packages: Packages) -> None:
    """Empties TextWorld's store of facts and variables if it is large.

    It would hold those of all games that a process has ever played, 160 KiB a game. Facts compare by value, so games in
    progress go on with those that they have.
    """
    if len(packages.mementos._memento_cache) > _FACTS:
        packages.mementos._memento_cache.clear()


def _put(replacements: list[_Replacement]) -> None:
    for owner, name, value in replacements:
        setattr(owner, name, value)


@cache
def _replacements(packages: Packages) -> list[_Replacement]:
    textgen, game_logic, rule = packages.textgen, packages.pddl.pddl_logic, packages.logic.Rule
    parse_query = rule.parse_conjunctive_query.__func__
    translate = packages.fast_downward.pddl2sas

    @lru_cache(_TEXTS)
    def text_model(text: str, rule_name: str) -> Any:
        return textgen._PARSER.parse(text, rule_name=rule_name)

    def parse_text(text: str, rule_name: str = "symbols", trace: bool = False) -> Any:
        # The caller fills in the symbols that come of it, so these have to be new; the model stays as it is.
        return textgen._Converter().walk(text_model(text, rule_name))

    @lru_cache(_GAMES)
    def game_model(text: str, rule_name: str) -> Any:
        return game_logic._PARSER.parse(text, rule_name=rule_name)

    def parse_game(text: str, rule_name: str) -> Any:
        return game_logic._ModelConverter().walk(game_model(text, rule_name))

    @lru_cache(_TEXTS)
    def query(expression: str) -> Any:
        return parse_query(rule, expression)

    def remembered_query(cls: type, expression: str) -> Any:
        return query(expression)

    @lru_cache(2 * _GAMES)
    def remembered_translation(domain: str, problem: str, verbose: bool = False, optimize: bool = False) -> Any:
        arguments = sys.argv
        try:
            return translate(domain, problem, verbose=verbose, optimize=optimize)
        finally:
            sys.argv = arguments  # which the translator overwrites

    def copy_context(context: dict[str, Any]) -> dict[str, Any]:
        # TextWorld adds to the two dictionaries, but changes nothing in them.
        return {**context, "variables": dict(context["variables"]), "mapping": dict(context["mapping"])}

    return [
        _Replacement(textgen, "_parse_and_convert", parse_text),
        _Replacement(textgen, "copy_context", copy_context),
        _Replacement(game_logic, "_parse_and_convert", parse_game),
        _Replacement(rule, "parse_conjunctive_query", classmethod(remembered_query)),
        _Replacement(packages.fast_downward, "pddl2sas", remembered_translation),
    ]
