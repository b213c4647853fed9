"""A catalogue made up on the spot, in the public data's formats: products by number, with goals of both kinds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

# Sets these products apart from any other use of a number as a seed.
_STREAM = 0x73686F70
MOST_PRODUCTS = 10**6  # numbers that an identity of ten characters holds beside its prefix


class _Kind(NamedTuple):
    """A kind of product.

    Attributes:
        noun: What it is called, which is also the query that the product was found by.
        department, shelf: The first parts of its category; the noun is the last.
        attributes: What may be said of it; `_ATTRIBUTES_OF_A_PRODUCT` of them are.
        options: By name, what one may choose from.
    """

    noun: str
    department: str
    shelf: str
    attributes: Sequence[str]
    options: dict[str, Sequence[str]]


_COLORS = ("black", "navy", "forest green", "red", "sand", "white", "light grey", "purple")
_CLOTHES_SIZES = ("small", "medium", "large", "x-large")

_KINDS = (
    _Kind(
        "travel mug",
        "Home & Kitchen",
        "Drinkware",
        ("dishwasher safe", "bpa free", "double wall", "leak proof", "stainless steel", "non slip"),
        {"color": _COLORS, "capacity": ("12 ounce", "16 ounce", "20 ounce")},
    ),
    _Kind(
        "backpack",
        "Clothing & Luggage",
        "Bags",
        ("water resistant", "padded strap", "lightweight", "carry on", "usb charging", "anti theft"),
        {"color": _COLORS, "size": ("20 liter", "30 liter", "40 liter")},
    ),
    _Kind(
        "desk lamp",
        "Home & Kitchen",
        "Lighting",
        ("usb charging", "dimmable", "energy efficient", "easy assemble", "eye caring", "space saving"),
        {"color": _COLORS, "style": ("clamp", "standing")},
    ),
    _Kind(
        "hiking socks",
        "Clothing & Luggage",
        "Clothing",
        ("machine washable", "moisture wicking", "non slip", "arch support", "long lasting", "quick drying"),
        {"color": _COLORS, "size": _CLOTHES_SIZES},
    ),
    _Kind(
        "electric kettle",
        "Home & Kitchen",
        "Appliances",
        ("stainless steel", "auto shutoff", "bpa free", "fast boiling", "cordless", "easy clean"),
        {"color": _COLORS},
    ),
    _Kind(
        "face cream",
        "Beauty & Care",
        "Skin Care",
        ("fragrance free", "cruelty free", "anti aging", "dermatologist tested", "hyaluronic acid", "sensitive skin"),
        {"size": ("1 ounce", "2 ounce", "4 ounce")},
    ),
    _Kind(
        "headphones",
        "Electronics",
        "Audio",
        ("noise cancelling", "wireless bluetooth", "long battery life", "fast charging", "stereo sound", "hands free"),
        {"color": _COLORS, "style": ("in ear", "over ear")},
    ),
    _Kind(
        "office chair",
        "Furniture",
        "Seating",
        ("lumbar support", "height adjustable", "easy assemble", "heavy duty", "high density", "faux leather"),
        {"color": _COLORS},
    ),
    _Kind(
        "granola bars",
        "Grocery",
        "Snacks",
        ("gluten free", "low sugar", "non gmo", "high protein", "plant based", "individually wrapped"),
        {"flavor name": ("almond", "blueberry", "dark chocolate", "peanut butter"), "size": ("6 count", "12 count")},
    ),
    _Kind(
        "rain jacket",
        "Clothing & Luggage",
        "Clothing",
        ("water resistant", "machine washable", "long sleeve", "quick drying", "lightweight", "slim fit"),
        {"color": _COLORS, "size": _CLOTHES_SIZES},
    ),
)

_ATTRIBUTES_OF_A_PRODUCT = 3
_ATTRIBUTES_OF_A_GOAL = 2
_VALUES_OF_AN_OPTION = 3
_SYLLABLES = ("al", "ber", "cor", "dan", "el", "fin", "gar", "hol", "in", "jor", "kes", "lum", "mor", "nor", "pel")
_ENDINGS = ("a", "by", "co", "den", "ex", "io", "ly", "na", "ora", "ton", "vane", "wick")
_PLACES = ("at home", "at work", "in the office", "on the road", "outdoors", "for the whole family", "as a present")
_PRAISE = ("everyday use", "long days", "small rooms", "beginners and experts alike", "those who travel a lot")


def generated_items(count: int, *, seed: int = 0) -> Iterator[dict[str, Any]]:
    """`count` products, each as a row of a file items_shuffle.json. Product n is the same however many there are."""
    for number in range(count):
        yield _item(number, seed)


def generated_attributes(count: int, *, seed: int = 0) -> dict[str, Any]:
    """The content of a file items_ins_v2.json for the first `count` products: a goal each."""
    content = {}
    for number in range(count):
        kind, attributes, rng = _drawn(number, seed)
        asked = attributes[:_ATTRIBUTES_OF_A_GOAL]
        brand = _name(rng)
        content[_asin(number)] = {
            "attributes": attributes,
            "instruction": f"Find me {' '.join(asked)} {kind.noun} by {brand}",
            "instruction_attributes": asked,
        }
    return content


def generated_instructions(count: int, *, seed: int = 0) -> dict[str, Any]:
    """The content of a file items_human_ins.json: for every second of `count` products a goal in other words."""
    content = {}
    for number in range(0, count, 2):
        kind, attributes, rng = _drawn(number, seed)
        brand = _name(rng)
        options = [values[0] for values in _options(kind, rng).values()]
        wish = f" in {' and '.join(options)}" if options else ""
        content[_asin(number)] = [
            {
                "instruction": f"i would like {kind.noun} from {brand} that is {attributes[0]}{wish}.",
                "instruction_attributes": attributes[:1],
                "instruction_options": options,
            }
        ]
    return content


def _item(number: int, seed: int) -> dict[str, Any]:
    kind, attributes, rng = _drawn(number, seed)
    brand = _name(rng)
    options = _options(kind, rng)
    price = round(float(rng.uniform(5, 90)), 2)
    place, praise = _PLACES[rng.integers(len(_PLACES))], _PRAISE[rng.integers(len(_PRAISE))]
    model = f"{chr(ord('A') + int(rng.integers(26)))}{int(rng.integers(100, 1000))}"
    return {
        "asin": _asin(number),
        "name": f"{brand} {kind.noun.title()} {model}, {attributes[0].title()}, {attributes[1].title()}",
        "category": kind.department.split()[0].lower(),
        "query": kind.noun,
        "product_category": f"{kind.department} › {kind.shelf} › {kind.noun.title()}",
        "full_description": (
            f"The {model} is a {kind.noun} by {brand}, made for use {place}. It is {attributes[0]} and "
            f"{attributes[1]}, which makes it good for {praise}. If it is not what you have been looking for, we take "
            "it back within thirty days of the day on which it was delivered to you."
        ),
        "small_description": [f"{attributes[2]} design", f"made by {brand}", f"good for {praise}"],
        # Every fourth costs more or less, depending on what one chooses.
        "pricing": f"${price:.2f}" if number % 4 else f"${price:.2f}${price + 10:.2f}",
        "images": [""],
        "customization_options": {
            name: [{"value": value, "image": None} for value in values] for name, values in options.items()
        },
    }


def _drawn(number: int, seed: int) -> tuple[_Kind, list[str], np.random.Generator]:
    """The kind and the attributes of a product, and the generator that draws the rest of it, brand first."""
    rng = np.random.default_rng([_STREAM, seed, number])
    kind = _KINDS[rng.integers(len(_KINDS))]
    chosen = rng.permutation(len(kind.attributes))[:_ATTRIBUTES_OF_A_PRODUCT]
    return kind, [kind.attributes[index] for index in chosen], rng


def _name(rng: np.random.Generator) -> str:
    """A brand's name of two syllables and an ending, one of 2,700."""
    syllables = [_SYLLABLES[index] for index in rng.integers(len(_SYLLABLES), size=2)]
    return ("".join(syllables) + _ENDINGS[rng.integers(len(_ENDINGS))]).title()


def _options(kind: _Kind, rng: np.random.Generator) -> dict[str, list[str]]:
    """By name, what may be chosen of a product; every fifth product comes in one version alone."""
    if rng.random() < 0.2:
        return {}
    return {
        name: [values[index] for index in sorted(rng.permutation(len(values))[:_VALUES_OF_AN_OPTION])]
        for name, values in kind.options.items()
    }


def _asin(number: int) -> str:
    return f"B{number:09d}"
