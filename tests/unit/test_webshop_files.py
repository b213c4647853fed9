"""Rows of the catalogue, long JSON arrays, and which goal a task is."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rllib_gigpo.env_adapters.generated_tasks import TASKS
from rllib_gigpo.env_adapters.webshop import json_array as json_array_module
from rllib_gigpo.env_adapters.webshop.generated_catalogue import generated_items
from rllib_gigpo.env_adapters.webshop.goals import GoalOption, human_goals, synthetic_goals
from rllib_gigpo.env_adapters.webshop.json_array import BrokenFileError, json_array
from rllib_gigpo.env_adapters.webshop.products import BrokenRowError, Product, product_of_row
from rllib_gigpo.env_adapters.webshop.splits import goal_number, num_validation_goals, task_id_of

pytestmark = pytest.mark.unit

ROW = {
    "asin": "b00x",
    "name": "A Mug",
    "full_description": None,
    "small_description": "one feature",
    "pricing": "$1,012.50",
    "query": " Travel MUG ",
    "product_category": "Home › Mugs",
    "category": "home",
    "images": ["x"],
    "customization_options": {"Color": [{"value": " Red/Blue ", "image": None}], "Style": None},
}


def test_a_row_becomes_a_product() -> None:
    product, has_price = product_of_row(ROW, ["bpa free"])
    assert has_price
    assert product == Product(
        asin="B00X",
        title="A Mug",
        description="",
        features=("one feature",),
        query="travel mug",
        product_category="Home › Mugs",
        prices=(1012.5,),
        options={"color": ("red | blue",)},
        attributes=("bpa free",),
    )
    assert Product.from_json(product.to_json()) == product
    assert product_of_row(ROW, None)[0].attributes == ("DUMMY_ATTR",)


@pytest.mark.parametrize(
    ("pricing", "tag", "has_price"),
    [
        ("$12.50", "$12.5", True),
        ("$12.50$20", "$12.5 to $20.0", True),
        ("$12.50 - $20.00$30", "$12.5 to $20.0", True),
        (None, "$100.0", False),
        ("", "$100.0", False),
        ("free", "$100.0", False),
        ("$free", "$100.0", False),
        ([], "$100.0", False),
    ],
)
def test_prices(pricing: Any, tag: str, has_price: bool) -> None:
    product, found = product_of_row({**ROW, "pricing": pricing}, None)
    assert (product.price_tag, found) == (tag, has_price)
    assert min(product.prices) <= product.price <= max(product.prices)
    assert product.price == product_of_row({**ROW, "pricing": pricing}, None)[0].price


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"asin": "nan"}, "its asin is 'nan'"),
        ({"asin": "x" * 11}, "1 to 10 characters"),
        ({"asin": None}, "its 'asin' is None"),
        ({"name": 7}, "b00x: its 'name' is 7"),
        ({"query": None}, "its 'query' is None"),
        ({"customization_options": [1]}, "are list instead of an object"),
        ({"customization_options": {"size": [{"image": 1}]}}, "its option 'size' is no"),
        ({"customization_options": {"size": [{"value": 3}]}}, "its option 'size' is no"),
    ],
)
def test_what_is_wrong_with_a_row(change: dict[str, Any], message: str) -> None:
    with pytest.raises(BrokenRowError, match=message):
        product_of_row({**ROW, **change}, None)
    with pytest.raises(BrokenRowError, match="it is list instead of an object"):
        product_of_row([], None)


def test_goals_of_both_kinds() -> None:
    options = {"Size": [{"value": "s"}, {"value": "l"}, {"value": "s"}], "Color": [{"value": "red"}]}
    product, _ = product_of_row({**ROW, "pricing": "$25", "customization_options": options}, None)
    skipped: Counter[str] = Counter()
    content = {"instruction": "find a mug", "instruction_attributes": ["bpa free"]}
    first, second = synthetic_goals(product, content, skipped)
    assert first.options == (GoalOption("color", "red"), GoalOption("size", "s"))
    assert second.options[1] == GoalOption("size", "l")
    # Of 30, 40, 50, 60 the higher of two.
    assert first.price_limit == second.price_limit and first.price_limit in (40.0, 50.0, 60.0)
    assert first.instruction == (
        f"find a mug with color: red, and size: s, and price lower than {first.price_limit:.2f} dollars"
    )
    written = [
        {"instruction": "i want a mug.", "instruction_attributes": ["bpa free"], "instruction_options": ["red"]},
        {"instruction": "i want it", "instruction_attributes": [], "instruction_options": []},
        {"instruction_attributes": ["x"]},
        "nothing",
    ]
    (goal,) = human_goals(product, written, skipped)
    assert goal.instruction == f"i want a mug, and price lower than {first.price_limit:.2f} dollars"
    assert goal.options == (GoalOption(None, "red"),)
    assert type(goal).from_json(goal.to_json()) == goal
    assert skipped == {"goals_without_attributes": 1, "goals_without_instruction": 2}
    dear, _ = product_of_row({**ROW, "pricing": "$985"}, None)
    (goal,) = synthetic_goals(dear, content, skipped)
    assert "price" not in goal.instruction and goal.price_limit == 1_000_000, "no two steps of ten are above it"


def test_limits_of_prices_are_drawn_as_published() -> None:
    content = {"instruction": "x", "instruction_attributes": ["y"]}
    limits = Counter()
    for row in generated_items(600):
        product, _ = product_of_row({**row, "pricing": "$5", "customization_options": None}, None)
        limits.update(goal.price_limit for goal in synthetic_goals(product, content, Counter()))
    # The higher of two of 10, 20, 30, 40: 20 of one pair in six, 30 of two, 40 of three. Four standard deviations of
    # a share of one half in 600 are 0.082.
    shares = {limit: count / 600 for limit, count in limits.items()}
    assert shares == {20.0: pytest.approx(1 / 6, abs=0.082), 30.0: pytest.approx(2 / 6, abs=0.082), 40.0: shares[40.0]}


def test_a_long_array_is_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = [{"a": [1, 2, {"ü": "\\]},"}]}, "]", 3, None, {"b": "x" * 50}]
    path = tmp_path / "array.json"
    for size in (1, 2, 7, 1000):
        monkeypatch.setattr(json_array_module, "_CHUNK", size)
        for text in (json.dumps(content), json.dumps(content, indent=2, ensure_ascii=False) + "\n"):
            path.write_text(text, encoding="utf-8")
            assert list(json_array(path)) == [element for element in content], size
        path.write_text(" [ ] ")
        assert list(json_array(path)) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "character 0: the array is cut off"),
        ('{"a": 1}', "character 0: it is no JSON array"),
        ('[{"a": 1}', "character 9: the array is cut off"),
        ('[{"a": 1}, {"a": ', "character 17: Expecting value"),
        ('[{"a": 1} {"a": 2}]', "character 10: it is no JSON array"),
        ("[1] 2", "character 4: something follows the array"),
        ('[{"a": oops}, {"b": 1}]', "character 7: Expecting value"),
    ],
)
def test_a_broken_array_names_file_and_place(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "array.json"
    path.write_text(text)
    with pytest.raises(BrokenFileError, match=f"array.json: {message}"):
        list(json_array(path))


def test_an_element_that_never_ends_is_not_looked_for_to_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_array_module, "_CHUNK", 10)
    monkeypatch.setattr(json_array_module, "_LONGEST_ELEMENT", 100)
    path = tmp_path / "array.json"
    path.write_text('[{"a": oops' + "x" * 10_000)
    with pytest.raises(BrokenFileError, match="character 7: Expecting value"):
        list(json_array(path))
    path.write_bytes(b"[\xff]")
    with pytest.raises(BrokenFileError, match="utf-8"):
        list(json_array(path))
    with pytest.raises(BrokenFileError, match="No such file"):
        list(json_array(tmp_path / "none.json"))


@pytest.mark.parametrize("num_goals", [2, 3, 9, 10, 2499, 2500, 12_087])
def test_train_and_validation_goals_are_disjoint_and_together_all(num_goals: int) -> None:
    num_valid = num_validation_goals(num_goals)
    assert 1 <= num_valid <= 500 and (num_goals < 2500 or num_valid == 500)
    train = {goal_number(task, num_goals) for task in range(num_goals + 3)}
    valid = {goal_number(TASKS + task, num_goals) for task in range(num_goals + 3)}
    assert train.isdisjoint(valid) and train | valid == set(range(num_goals))
    for task in (0, 1, np.int64(num_goals), TASKS - 1, TASKS, TASKS + 7):
        number = goal_number(task, num_goals)
        assert goal_number(task_id_of(number, num_goals), num_goals) == number


@pytest.mark.parametrize("task", ["train/8", "valid/2", "valid/-1", "test/0", "", "train/1.0"])
def test_a_wrong_name_is_refused(task: str) -> None:
    with pytest.raises(ValueError, match=r"a goal is named 'train/0' to 'train/7' or 'valid/0' to 'valid/1'"):
        goal_number(task, 10)


def test_a_task_that_is_no_task_is_refused() -> None:
    with pytest.raises(ValueError, match="task is -1; WebShop takes an integer of at least 0"):
        goal_number(-1, 10)
    for task in (True, 1.0, None):
        with pytest.raises(TypeError, match="WebShop takes an integer of at least 0 or a goal's name"):
            goal_number(task, 10)
