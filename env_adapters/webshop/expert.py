"""Buys what is asked for, knowing which product that is."""

from __future__ import annotations

from rllib_gigpo.env_adapters.webshop.catalogue import Catalogue
from rllib_gigpo.env_adapters.webshop.goals import Goal, GoalOption
from rllib_gigpo.env_adapters.webshop.products import Product
from rllib_gigpo.env_adapters.webshop.score import meets
from rllib_gigpo.env_adapters.webshop.shop import Shop


def expert_action(shop: Shop, goal: Goal, catalogue: Catalogue) -> str:
    """The next action towards a purchase of score 1; gives up with "" where the search does not show the product."""
    wanted = catalogue.product(goal.asin)
    clicks = shop.clicks()
    if shop.page == "item" and shop.product == wanted:
        missing = (option_to_choose(option, wanted, shop.chosen) for option in goal.options)
        value = next((value for value in missing if value), None)
        return "click[buy now]" if value is None else f"click[{value}]"
    if shop.page == "results" and shop.words == " ".join(wanted.title.lower().split()):
        if goal.asin.lower() in clicks:
            return f"click[{goal.asin.lower()}]"
        return "click[next >]" if any(click.kind == "product" for click in clicks.values()) else ""
    return f"search[{wanted.title}]"


def option_to_choose(option: GoalOption, product: Product, chosen: dict[str, str]) -> str | None:
    """The value to be chosen for an option of the goal; None where one that will do is chosen, or none is to be had."""
    if any(meets(value, option) for value in chosen.values()):
        return None
    fitting = [
        value
        for name, values in product.options.items()
        for value in values
        if option.name in (None, name) and meets(value, option)
    ]
    exact = [value for value in fitting if value == option.value]
    return next(iter(exact or fitting), None)
