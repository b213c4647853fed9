"""WebShop's reward, here called score (Yao et al. 2022, section 2.3): how well what was bought fits the goal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from rapidfuzz import fuzz, utils

from rllib_gigpo.env_adapters.webshop.colors import compared_option, compared_value
from rllib_gigpo.env_adapters.webshop.goals import Goal, GoalOption
from rllib_gigpo.env_adapters.webshop.products import Product

# From a title to the words of it that are compared.
TitleWords = Callable[[str], frozenset[str]]

_ALIKE = 85  # of 100: texts whose fuzzy ratio is above are the same
_SHARED_CATEGORIES = 2
_LATIN_1_SUPPLEMENT = dict.fromkeys(range(128, 256))


class Score(NamedTuple):
    """A score with its parts, all from 0 to 1.

    Attributes:
        score: type_factor · (attributes met + options met + is the price met) / (attributes + options + 1).
        type_factor: 1 for a product of the right kind, else 0.5, 0.1 or 0.
        attributes_met, options_met: Shares; `options_met` is 1 where none are asked for.
        price_met: Whether the price is within the limit.
    """

    score: float
    type_factor: float
    attributes_met: float
    options_met: float
    price_met: bool


def score_purchase(
    bought: Product, chosen: Mapping[str, str], goal: Goal, goal_product: Product, title_words: TitleWords
) -> Score:
    """The score of buying `bought` with the options `chosen`, where `goal_product` is the goal's own product."""
    attributes = sum(_has_attribute(bought, attribute) for attribute in goal.attributes)
    options = _options_met(chosen.values(), goal.options)
    price_met = bought.price <= goal.price_limit
    factor = type_factor(bought, goal_product, title_words)
    asked = len(goal.attributes) + len(goal.options) + 1
    return Score(
        score=factor * (attributes + options + price_met) / asked,
        type_factor=factor,
        attributes_met=attributes / len(goal.attributes),
        options_met=options / len(goal.options) if goal.options else 1.0,
        price_met=price_met,
    )


def type_factor(bought: Product, wanted: Product, title_words: TitleWords) -> float:
    """1 where query, two categories or a fifth of the title's words agree, else 0.5; little where the titles differ."""
    of_wanted = title_words(wanted.title)
    share = len(title_words(bought.title) & of_wanted) / len(of_wanted) if of_wanted else 0.2
    if share == 0:
        return 0.0
    if share < 0.1:
        return 0.1
    shared = _categories(bought) & _categories(wanted)
    is_right_kind = bought.query == wanted.query or len(shared) >= _SHARED_CATEGORIES or share > 0.2
    return 1.0 if is_right_kind else 0.5


def meets(value: str, option: GoalOption) -> bool:
    """Whether a value that was chosen is what a goal's option asks for, or like it.

    In the published code "flavor: blueberry" is never met, also not by "blueberry", of which it sees the "blue" alone.
    """
    return value == option.value or alike(compared_value(value), compared_option(option))


def alike(text: str, other: str) -> bool:
    """Whether the words of one text are, nearly, among those of the other."""
    # As the package thefuzz does it, which WebShop uses: special characters are blanks, and the ratio is rounded.
    ratio = fuzz.token_set_ratio(_processed(text), _processed(other))
    return round(ratio) > _ALIKE


def _processed(text: str) -> str:
    return utils.default_process(text.translate(_LATIN_1_SUPPLEMENT))


def _categories(product: Product) -> set[str]:
    return {part.strip() for part in product.product_category.split("›")}


def _has_attribute(product: Product, attribute: str) -> bool:
    if any(alike(known, attribute) for known in product.attributes):
        return True
    shown = (product.title, " ".join(product.features), product.description)
    return any(attribute in text.lower() for text in shown)


def _options_met(chosen: Iterable[str], wanted: Iterable[GoalOption]) -> int:
    values = list(chosen)
    return sum(any(meets(value, option) for value in values) for option in wanted)
