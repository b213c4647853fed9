"""WebShop's data in files: the generator, the public layout, the cache, and what is wrong with data folders."""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rllib_gigpo.env_adapters import make_env
from rllib_gigpo.env_adapters.webshop import catalogue_cache
from rllib_gigpo.env_adapters.webshop.data_files import data_files
from rllib_gigpo.env_adapters.webshop.generate import main, write_files
from rllib_gigpo.env_adapters.webshop.json_array import BrokenFileError
from rllib_gigpo.env_adapters.webshop.webshop_env import WebShop
from tests.environment_cases import fingerprint, fingerprints_in_other_processes
from tests.webshop_cases import needs_webshop

pytestmark = [pytest.mark.integration, needs_webshop]

PRODUCTS = 40
KINDS = ("synthetic", "human")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("webshop")
    write_files(out, num_products=PRODUCTS, seed=0)
    return out


@pytest.fixture
def data(written: Path, tmp_path: Path) -> Path:
    """The data, to be spoilt."""
    shutil.copytree(written, tmp_path / "data")
    return tmp_path / "data"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WEBSHOP_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def change(path: Path, function: Callable[[Any], Any]) -> None:
    """Puts what `function` makes of a JSON file's content into it; None keeps the content, changed in place."""
    content = json.loads(path.read_text())
    changed = function(content)
    path.write_text(json.dumps(content if changed is None else changed))


def all_starts(data: Path) -> str:
    """Digests of starts and first answers."""
    shops = [WebShop(data=folder, goals=kind) for folder in ("", data) for kind in KINDS]
    return str([fingerprint(shop, range(5), range(5)) for shop in shops])


def test_another_process_sets_up_the_same_starts(data: Path) -> None:
    # Each with a cache of its own, so that it builds the index anew.
    elsewhere = fingerprints_in_other_processes(
        f"all_starts(Path({str(data)!r}))",
        "import os, tempfile; os.environ['WEBSHOP_CACHE'] = tempfile.mkdtemp(); from pathlib import Path\n"
        "from tests.integration.test_webshop_data import all_starts",
    )
    assert elsewhere == {all_starts(data)}


def test_a_catalogue_of_files_is_the_one_that_is_made_up(data: Path) -> None:
    for kind in KINDS:
        files, made_up = WebShop(data=data, goals=kind), WebShop(data="", num_products=PRODUCTS, goals=kind)
        assert files.catalogue.num_goals == made_up.catalogue.num_goals >= PRODUCTS // 2
        assert fingerprint(files, range(5), range(5)) == fingerprint(made_up, range(5), range(5))
        for words in ("travel mug", "water resistant backpack in red"):
            assert files.catalogue.search(words, limit=9) == made_up.catalogue.search(words, limit=9)
        assert files.skipped == made_up.skipped == {}


def test_the_variable_names_the_data_and_the_first_products_can_be_had(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEBSHOP_DATA", str(data))
    assert make_env("WebShop").catalogue.num_products == PRODUCTS
    few = make_env("WebShop", num_products=12)
    assert few.catalogue.num_products == 12 and few.skipped == {"goals_of_unknown_products": PRODUCTS - 12}
    with pytest.raises(ValueError, match=r"num_products is 41, but .*items_shuffle.json has 40 rows"):
        WebShop(num_products=41)


def test_the_small_files_are_taken_where_they_suffice(data: Path) -> None:
    def names(num_products: int | None) -> list[str]:
        files = data_files(data, goal_kind="synthetic", num_products=num_products)
        return [files.items.name, files.attributes.name]

    large, small = (["items_shuffle.json", "items_ins_v2.json"], ["items_shuffle_1000.json", "items_ins_v2_1000.json"])
    assert names(None) == names(1000) == large
    for name, other in zip(large, small, strict=True):
        shutil.copy(data / name, data / other)
    assert (names(None), names(1000), names(5), names(1001)) == (large, small, small, large)
    for name in large:
        (data / name).unlink()
    assert names(None) == small


def test_a_missing_folder_or_file_names_the_variable_and_the_layout(data: Path, tmp_path: Path) -> None:
    hint = r"set WEBSHOP_DATA, or env_config\['data'\], to a folder with items_shuffle.json with items_ins_v2.json, or"
    with pytest.raises(FileNotFoundError, match=f"nowhere is no folder; {hint}"):
        WebShop(data=tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match=f"holds neither items_shuffle.json nor .*; {hint}"):
        WebShop(data=tmp_path / "empty")
    (data / "items_human_ins.json").unlink()
    WebShop(data=data, goals="synthetic")
    with pytest.raises(FileNotFoundError, match=r"holds items_shuffle.json, but not items_human_ins.json"):
        WebShop(data=data, goals="human")


@pytest.mark.parametrize("name", ["items_shuffle.json", "items_ins_v2.json", "items_human_ins.json"])
def test_a_broken_file_is_one_error_and_leaves_nothing_in_the_cache(data: Path, cache: Path, name: str) -> None:
    text = (data / name).read_text()
    (data / name).write_text(text[: len(text) // 2])
    for _ in range(2):
        with pytest.raises(BrokenFileError, match=name):
            WebShop(data=data, goals="human")
    assert {path.name for path in cache.iterdir()} == {"content_hashes"}
    (data / name).write_text("[]" if name != "items_shuffle.json" else "{}")
    with pytest.raises(BrokenFileError, match=name):
        WebShop(data=data, goals="human")


def test_broken_rows_and_goals_are_left_out_and_counted(data: Path, caplog: pytest.LogCaptureFixture) -> None:
    def spoil(rows: list[Any]) -> None:
        rows[0]["pricing"] = None
        rows[1]["pricing"] = ""
        del rows[2]["name"]
        rows[3] = "no row"
        rows.append(rows[5])
        rows[6]["asin"] = "nan"
        rows[7]["full_description"] = "a long dash — and 漢字 🎈"

    change(data / "items_shuffle.json", spoil)
    change(data / "items_ins_v2.json", lambda goals: goals["B000000008"].update(instruction_attributes=[]))
    change(data / "items_ins_v2.json", lambda goals: goals.update({"B0UNKNOWN": goals["B000000009"]}))
    change(data / "items_ins_v2.json", lambda goals: goals.update({"B000000004": "nothing"}))
    with caplog.at_level(logging.WARNING):
        env = WebShop(data=data)
    assert env.skipped == {
        "broken_rows": 3,
        "goals_of_unknown_products": 4,  # of the broken rows, and the one that never was there
        "goals_without_attributes": 1,
        "goals_without_instruction": 1,
        "products_without_price": 2,
        "repeated_products": 1,
    }
    assert env.catalogue.num_products == PRODUCTS - 3
    (record,) = caplog.records
    assert "'broken_rows': 3" in record.message and "row 3: B000000002: its 'name' is None" in record.message
    assert record.message.endswith("; 2 products without a price cost $100")
    assert {"—", "漢", "🎈"} < set(env.observation_space.characters)
    assert env.catalogue.product("B000000000").price_tag == "$100.0"
    asins = {env.catalogue.goal(number).asin for number in range(env.catalogue.num_goals)}
    assert asins.isdisjoint({"B000000002", "B000000003", "B000000006", "B000000008", "B000000004", "B0UNKNOWN"})


def test_without_goals_it_says_what_was_left_out(data: Path) -> None:
    change(data / "items_ins_v2.json", lambda goals: {f"X{asin[1:]}": goal for asin, goal in goals.items()})
    with pytest.raises(ValueError, match=r"40 products have 0 goals; .* Left out were: 40 goals_of_unknown_products"):
        WebShop(data=data)


def test_the_same_goal_twice_counts_once(data: Path) -> None:
    before = WebShop(data=data, goals="human").catalogue.num_goals
    change(data / "items_human_ins.json", lambda goals: {asin: written * 2 for asin, written in goals.items()})
    env = WebShop(data=data, goals="human")
    assert env.catalogue.num_goals == before and env.skipped == {"repeated_goals": before}


def test_the_index_is_built_once_for_a_content(
    data: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    WebShop(data=data)
    (folder,) = cache.glob("1-*")
    shutil.copytree(data, tmp_path / "moved")
    catalogue_cache._from_files.cache_clear()
    with monkeypatch.context() as patched:
        patched.setattr(catalogue_cache, "build_from_files", None)  # would raise if it were called
        moved = WebShop(data=tmp_path / "moved")
        assert moved.reset(options={"task": 1}) == WebShop(data=data).reset(options={"task": 1})
    change(data / "items_shuffle.json", lambda rows: rows[0].update(name="Another Name"))
    assert WebShop(data=data).catalogue.product("B000000000").title == "Another Name", "a changed file, a new catalogue"
    assert moved.catalogue.product("B000000000").title != "Another Name"
    assert len(list(cache.glob("1-*"))) == 2 and not list(cache.glob("being-built-*"))
    assert {path.name for path in folder.iterdir()} == {"catalogue.sqlite", "search_index"}


def _first_observation(data: Path, cache: Path, barrier: Any, answers: Any) -> None:
    barrier.wait()
    answers.put(WebShop(data=data, cache=cache).reset(options={"task": 2})[0])


def test_processes_that_build_at_the_same_time_share_one_catalogue(data: Path, cache: Path) -> None:
    context = multiprocessing.get_context("spawn")
    barrier, answers = context.Barrier(3), context.Queue()
    processes = [context.Process(target=_first_observation, args=(data, cache, barrier, answers)) for _ in range(3)]
    for process in processes:
        process.start()
    assert len({answers.get(timeout=120) for _ in processes}) == 1
    for process in processes:
        process.join(timeout=60)
        assert process.exitcode == 0
    assert len(list(cache.glob("1-*"))) == 1 and not list(cache.glob("being-built-*"))


def test_the_command_writes_the_same_files_again_and_shows_its_errors(
    written: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main([str(tmp_path / "out"), "--products", str(PRODUCTS)])
    assert capsys.readouterr().out == f"export WEBSHOP_DATA={tmp_path / 'out'}{os.linesep}"
    for path in written.iterdir():
        assert (tmp_path / "out" / path.name).read_bytes() == path.read_bytes()
    write_files(tmp_path / "other", num_products=3, seed=1)
    first, other = (json.loads((out / "items_shuffle.json").read_text()) for out in (written, tmp_path / "other"))
    assert first[:3] != other
    for arguments, message in (
        (["out"], "holds items_shuffle.json, items_ins_v2.json, items_human_ins.json already"),
        (["new", "--products", "0"], "products is 0; it must be from 1"),
        (["new", "--seed", "-1"], "seed is -1"),
    ):
        with pytest.raises(SystemExit, match=message):
            main([str(tmp_path / arguments[0]), *arguments[1:]])
