"""WebShop's score: the published formula case by case, on products made for the purpose."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rllib_gigpo.env_adapters.webshop import title_words as title_words_module
from rllib_gigpo.env_adapters.webshop.goals import NO_LIMIT, Goal, GoalOption
from rllib_gigpo.env_adapters.webshop.products import Product
from rllib_gigpo.env_adapters.webshop.score import alike, meets, score_purchase, type_factor
from rllib_gigpo.env_adapters.webshop.title_words import title_words

pytestmark = pytest.mark.unit

WORDS = title_words("words")
MUG = Product(
    asin="B1",
    title="Orvane Travel Mug",
    description="Keeps tea hot. BPA free.",
    features=("double wall", "fits any cup holder"),
    query="travel mug",
    product_category="Home › Drinkware › Mugs",
    prices=(20.0,),
    options={"color": ("red", "navy blue"), "size": ("12 ounce", "16 ounce")},
    attributes=("dishwasher safe",),
)
GOAL = Goal(
    "B1",
    "a mug",
    ("dishwasher safe", "double wall"),
    (GoalOption("color", "red"), GoalOption("size", "12 ounce")),
    30.0,
)
RIGHT = {"color": "red", "size": "12 ounce"}


# Score = factor · (attributes met + options met + price met) / (2 + 2 + 1).
@pytest.mark.parametrize(
    ("bought", "chosen", "goal", "score"),
    [
        pytest.param({}, RIGHT, {}, 1.0, id="all met"),
        pytest.param({}, {}, {}, 3 / 5, id="no option chosen"),
        pytest.param({}, {"color": "red"}, {}, 4 / 5, id="one option chosen"),
        pytest.param({}, {"color": "navy blue", "size": "12 ounce"}, {}, 4 / 5, id="another color"),
        pytest.param({}, {"color": "dark red", "size": "12 ounce"}, {}, 4 / 5, id="'dark' comes before 'red'"),
        pytest.param({"prices": (30.0,)}, RIGHT, {}, 1.0, id="the limit itself"),
        pytest.param({"prices": (30.5,)}, RIGHT, {}, 4 / 5, id="too dear"),
        pytest.param({"prices": (1e5,)}, RIGHT, {"price_limit": NO_LIMIT}, 1.0, id="no limit"),
        pytest.param({"attributes": ("DUMMY_ATTR",)}, RIGHT, {}, 4 / 5, id="an attribute is missing"),
        pytest.param({"features": ()}, RIGHT, {}, 4 / 5, id="an attribute stands nowhere"),
        pytest.param({"features": (), "title": "Double Wall Mug Orvane Travel"}, RIGHT, {}, 1.0, id="in the title"),
        pytest.param({}, RIGHT, {"attributes": ("bpa free",)}, 1.0, id="in the description"),
        pytest.param({"attributes": ("dishwasher-safe!",)}, RIGHT, {}, 1.0, id="nearly the same attribute"),
        pytest.param({}, {}, {"options": ()}, 1.0, id="no options asked for"),
        pytest.param({}, {"size": "16 ounce"}, {"options": ()}, 1.0, id="options that nobody asked for"),
        pytest.param({"prices": (90.0,), "attributes": ("x",), "features": ()}, {}, {}, 0.0, id="nothing met"),
        pytest.param({"title": "Desk Lamp"}, RIGHT, {}, 0.0, id="a title without a common word"),
    ],
)
def test_the_formula(bought: dict, chosen: dict, goal: dict, score: float) -> None:
    found = score_purchase(replace(MUG, **bought), chosen, GOAL._replace(**goal), MUG, WORDS)
    assert found.score == score  # whole numbers over their count: exact


def test_the_parts_of_a_score() -> None:
    found = score_purchase(MUG, {"color": "red"}, GOAL, MUG, WORDS)
    assert found._asdict() == {
        "score": 0.8,
        "type_factor": 1.0,
        "attributes_met": 1.0,
        "options_met": 0.5,
        "price_met": True,
    }


LONG = replace(MUG, title="one two three four five six seven eight nine ten eleven")


@pytest.mark.parametrize(
    ("bought", "factor"),
    [
        pytest.param({"title": "one two three"}, 1.0, id="3 of 11 words, above 0.2"),
        pytest.param({"title": "one two", "query": "x", "product_category": "y"}, 0.5, id="2 of 11, nothing else"),
        pytest.param({"title": "one two", "product_category": "y"}, 1.0, id="2 of 11 and the query"),
        pytest.param({"title": "one two", "query": "x"}, 1.0, id="2 of 11 and three categories"),
        pytest.param(
            {"title": "one two", "query": "x", "product_category": "Mugs › Home"}, 1.0, id="two, in another order"
        ),
        pytest.param({"title": "one two", "query": "x", "product_category": "Home › y"}, 0.5, id="one category"),
        pytest.param({"title": "one"}, 0.1, id="1 of 11 words, below 0.1, even with the query"),
        pytest.param({"title": "none"}, 0.0, id="no word, even with the query"),
    ],
)
def test_the_type_factor(bought: dict, factor: float) -> None:
    defaults = {"query": LONG.query, "product_category": LONG.product_category}
    assert type_factor(replace(LONG, **{**defaults, **bought}), LONG, WORDS) == factor


def test_a_title_without_words_counts_as_a_fifth() -> None:
    empty = replace(MUG, title="The And")
    assert type_factor(MUG, empty, WORDS) == 1.0
    assert type_factor(replace(MUG, query="x", product_category="y"), empty, WORDS) == 0.5


@pytest.mark.parametrize(
    ("value", "option", "is_met"),
    [
        ("navy blue", GoalOption("color", "navy blue"), True),
        ("light blue", GoalOption("color", "navy blue"), True),  # both are "blue"
        ("light blue", GoalOption(None, "Navy blue"), True),
        ("red", GoalOption("color", "blue"), False),
        ("12 ounce", GoalOption("size", "16 ounce"), False),
        ("12 ounce", GoalOption(None, "16 ounce"), True),  # nearly the same text, as published
        ("large", GoalOption("size", "x-large"), True),  # its words are among those asked for, as published
        ("blueberry", GoalOption("flavor", "blueberry"), True),  # holds a "blue"; not met in the published code
        ("standing", GoalOption("style", "standing"), True),  # and this one a "tan"
        ("b012 (pack of 2)", GoalOption(None, "b012 - pack of 2"), True),
    ],
)
def test_which_choice_meets_an_option(value: str, option: GoalOption, is_met: bool) -> None:
    assert meets(value, option) is is_met


def test_texts_are_alike_above_85_of_100() -> None:
    assert alike("water resistant", "Water-Resistant") and alike("resistant to water", "water resistant")
    assert alike("waterproofed", "waterproof")  # 2 · 10 / 22 = 0.91
    assert not alike("washable", "washing")
    assert not alike("", "") and not alike("™", "®")  # nothing is left of them


def test_titles_are_compared_by_all_words_but_stop_words_without_a_model(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(title_words_module, "find_spec", lambda name: None)
    title_words_module._say_once.cache_clear()
    with caplog.at_level("INFO"):
        assert title_words("auto")("The Mug, for YOU 2") == {"mug", "2"}
        title_words("auto")
    assert len(caplog.records) == 1 and "en_core_web_sm" in caplog.text
    with pytest.raises(ImportError, match="title_words='nouns' needs spaCy and one of its models en_core_web_sm"):
        title_words("nouns")


def test_nouns_are_taken_where_a_model_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    spacy = pytest.importorskip("spacy")
    # A model of rules in the place of the one that is installed nowhere here: it tags as the real ones do.
    model = spacy.blank("en")
    model.add_pipe("attribute_ruler").add_patterns(
        [
            {"patterns": [[{"LOWER": "mug"}]], "attrs": {"POS": "NOUN"}},
            {"patterns": [[{"LOWER": "orvane"}]], "attrs": {"POS": "PROPN"}},
            {"patterns": [[{"LOWER": "red"}]], "attrs": {"POS": "ADJ"}},
        ]
    )
    monkeypatch.setattr(title_words_module, "find_spec", lambda name: True)
    monkeypatch.setattr(title_words_module, "_tagger", lambda name: model)
    assert title_words("auto")("Orvane red Mug") == {"orvane", "mug"}
    assert title_words("words")("Orvane red Mug") == {"orvane", "red", "mug"}
    title_words_module._nouns.cache_clear()
