"""A product, as a row of WebShop's public file items_shuffle.json describes it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rllib_gigpo.seeds import derive_seed

DATA_SEED = 233  # of everything that is drawn about the data: the same products and goals on every machine, for good
DEFAULT_PRICE = 100.0  # dollars, of a product without a price, as published
_LONGEST_ASIN = 10
# What WebShop says of a product about which items_ins_v2.json knows nothing.
_NO_ATTRIBUTES = ("DUMMY_ATTR",)


class BrokenRowError(ValueError):
    """A row of the catalogue from which no product can be made."""


@dataclass(frozen=True)
class Product:
    """A product.

    Attributes:
        asin: Its identity, at most ten characters.
        title, description, features: What its pages show; the features are the published "bullet points".
        query: The words by which it was found when the data was collected; compared by the reward.
        product_category: "Department › Shelf › Kind"; compared by the reward.
        prices: Dollars, one or two; two are a range.
        options: By name, in lower case, what one may choose from.
        attributes: What it is known to be, such as "water resistant"; compared by the reward, shown nowhere.
    """

    asin: str
    title: str
    description: str
    features: tuple[str, ...]
    query: str
    product_category: str
    prices: tuple[float, ...]
    options: dict[str, tuple[str, ...]]
    attributes: tuple[str, ...]

    @property
    def price_tag(self) -> str:
        """What its pages show, "$12.5" or "$12.5 to $22.5"."""
        return " to ".join(f"${price}" for price in self.prices)

    @property
    def price(self) -> float:
        """What it costs, in dollars; of a range, as published, something in between, here always the same."""
        if len(self.prices) == 1:
            return self.prices[0]
        lowest, highest = self.prices
        return lowest + (highest - lowest) * (derive_seed(DATA_SEED, "price", self.asin) / 2**63)

    def to_json(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Product:
        content = json.loads(text)
        for name in ("features", "prices", "attributes"):
            content[name] = tuple(content[name])
        content["options"] = {name: tuple(values) for name, values in content["options"].items()}
        return cls(**content)


def product_of_row(row: Any, attributes: Sequence[str] | None) -> tuple[Product, bool]:
    """The product, and whether the row gives it a price.

    Args:
        row: Of items_shuffle.json.
        attributes: Of items_ins_v2.json, None where there are none.

    Raises:
        BrokenRowError: It is no object, or lacks its identity, name, query or category, or has them in another form.
    """
    if not isinstance(row, Mapping):
        raise BrokenRowError(f"it is {type(row).__name__} instead of an object")
    asin = _text(row, "asin")
    if asin == "nan" or not 0 < len(asin) <= _LONGEST_ASIN:
        raise BrokenRowError(f"its asin is {asin!r}; it must have 1 to {_LONGEST_ASIN} characters")
    features = row.get("small_description") or []
    prices = _prices(row.get("pricing"))
    product = Product(
        asin=asin.upper(),
        title=_text(row, "name"),
        description=str(row.get("full_description") or ""),
        features=tuple(str(f) for f in (features if isinstance(features, list) else [features]) if f),
        query=_text(row, "query").lower().strip(),
        product_category=_text(row, "product_category"),
        prices=prices or (DEFAULT_PRICE,),
        options=_options(row.get("customization_options"), asin),
        attributes=tuple(map(str, attributes or _NO_ATTRIBUTES)),
    )
    return product, bool(prices)


def _text(row: Mapping[str, Any], key: str) -> str:
    value = row.get(key)
    if not isinstance(value, str):
        raise BrokenRowError(f"{row.get('asin', 'no asin')}: its {key!r} is {value!r}; it must be a text")
    return value


def _prices(text: Any) -> tuple[float, ...]:
    """Of "$12.50" or "$12.50$22.50"; empty where there is none."""
    found = []
    for part in str(text or "").split("$")[1:3]:
        number = re.search(r"\d[\d,]*(?:\.\d+)?", part)
        if number:
            found.append(float(number[0].replace(",", "")))
    return tuple(found)


def _options(content: Any, asin: str) -> dict[str, tuple[str, ...]]:
    if not isinstance(content or {}, Mapping):
        raise BrokenRowError(f"{asin}: its 'customization_options' are {type(content).__name__} instead of an object")
    options = {}
    for name, choices in (content or {}).items():
        if choices is None:
            continue
        try:
            # As published: a slash would not do in the addresses of the original's pages.
            options[name.lower()] = tuple(c["value"].strip().replace("/", " | ").lower() for c in choices)
        except (AttributeError, KeyError, TypeError) as error:
            raise BrokenRowError(f"{asin}: a value of its option {name!r} is no {{'value': text}}") from error
    return options
