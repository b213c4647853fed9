"""What a shopper is asked to buy: WebShop's two kinds of goals, made from its products and instruction files."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import combinations, product
from typing import Any, NamedTuple

from rllib_gigpo.env_adapters.webshop.products import DATA_SEED, Product
from rllib_gigpo.seeds import derive_seed

GOAL_KINDS = ("synthetic", "human")
NO_LIMIT = 1_000_000.0  # dollars: the published limit where a goal says nothing of a price
_PRICE_STEPS = [10.0 * step for step in range(1, 100)]
_STEPS_ABOVE = 4  # of these, above a product's price, two are drawn; the higher one is the limit


class GoalOption(NamedTuple):
    """An option that a goal asks for.

    Attributes:
        name: "color"; None where the goal, written by a person, names the value alone.
        value: "red".
    """

    name: str | None
    value: str


class Goal(NamedTuple):
    """A goal, which its own product fulfils.

    Attributes:
        asin: Of that product.
        instruction: What the shopper is told, price limit included.
        attributes: What the product must be, "water resistant"; at least one.
        options: What must be chosen.
        price_limit: Dollars.
    """

    asin: str
    instruction: str
    attributes: tuple[str, ...]
    options: tuple[GoalOption, ...]
    price_limit: float

    def to_json(self) -> str:
        return json.dumps(self, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Goal:
        asin, instruction, attributes, options, price_limit = json.loads(text)
        return cls(asin, instruction, tuple(attributes), tuple(GoalOption(*o) for o in options), price_limit)


def synthetic_goals(item: Product, content: Any, skipped: Counter[str]) -> Iterator[Goal]:
    """A goal for every combination of the product's options.

    Args:
        item: The product.
        content: What items_ins_v2.json says of it, an object with "instruction" and "instruction_attributes".
        skipped: Counts what is left out.
    """
    if not isinstance(content, Mapping):
        skipped["goals_without_instruction"] += 1
        return
    instruction = content.get("instruction")
    if not instruction:  # as of many products of the public data
        return
    if not (attributes := _attributes(content)):
        skipped["goals_without_attributes"] += 1
        return
    limit, price_text = _price_limit(item)
    names = sorted(item.options)
    for values in product(*(dict.fromkeys(item.options[name]) for name in names)):
        options = tuple(GoalOption(*pair) for pair in zip(names, values, strict=True))
        chosen = ", and ".join(f"{name}: {value}" for name, value in options)
        text = f"{instruction}{f' with {chosen}' if chosen else ''}{price_text}"
        yield Goal(item.asin, text, attributes, options, limit)


def human_goals(item: Product, content: Any, skipped: Counter[str]) -> Iterator[Goal]:
    """The goals that people wrote for the product.

    Args:
        item: The product.
        content: What items_human_ins.json says of it: a list of "instruction", "instruction_attributes" and
            "instruction_options".
        skipped: Counts what is left out.
    """
    for written in content if isinstance(content, list) else ():
        if not isinstance(written, Mapping) or not isinstance(written.get("instruction"), str):
            skipped["goals_without_instruction"] += 1
        elif not (attributes := _attributes(written)):
            skipped["goals_without_attributes"] += 1
        else:
            limit, price_text = _price_limit(item)
            options = tuple(GoalOption(None, str(value)) for value in written.get("instruction_options") or ())
            instruction = written["instruction"].strip(".") + price_text
            yield Goal(item.asin, instruction, attributes, options, limit)


def _attributes(content: Mapping[str, Any]) -> tuple[str, ...]:
    attributes = content.get("instruction_attributes")
    return tuple(map(str, attributes)) if isinstance(attributes, list) else ()


def _price_limit(item: Product) -> tuple[float, str]:
    """The limit in dollars, and how the instruction says it: drawn as published, but the same for good."""
    above = [step for step in _PRICE_STEPS if step > item.price][:_STEPS_ABOVE]
    pairs = list(combinations(above, 2))
    if not pairs:
        return NO_LIMIT, ""
    limit = max(pairs[derive_seed(DATA_SEED, "price limit", item.asin) % len(pairs)])
    return limit, f", and price lower than {limit:.2f} dollars"
