"""The long runs of benchmarks/soak.py, made short: experts win, the page is written part by part."""

from __future__ import annotations

import importlib
import pickle
from pathlib import Path
from typing import Any

import pytest

from rllib_gigpo import registry
from rllib_gigpo.env_checks import Status
from tests.webshop_cases import needs_webshop

pytestmark = pytest.mark.integration


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    return importlib.import_module


def test_every_environment_has_its_expert_and_its_part(module: Any) -> None:
    # TextArena is hundreds of games, each of which would need an expert of its own.
    names = set(registry.environment_names()) - {"TextArena"}
    assert set(module("soak_experts").EXPERTS) == names
    assert names < set(module("soak").PARTS)


@pytest.mark.parametrize(
    "name",
    [
        *("Blackjack", "EZPoints", "Household", "NumberLine", "Points24", "SearchQA", "Sokoban"),
        pytest.param("WebShop", marks=needs_webshop),
    ],
)
def test_the_expert_wins_what_can_be_won(module: Any, name: str) -> None:
    (expert, *others) = module("soak_episodes").soak_environment(name, episodes=20)
    assert expert.status == Status.PASS, expert
    assert [result.name for result in others] == ["random", "speed", "memory"]
    can_all_be_won = name not in ("Blackjack", "Points24")
    assert ("nobody can win" in expert.seen) != can_all_be_won


@pytest.mark.parametrize("name", ["Nim", "RelayHousehold"])
def test_the_expert_of_two_agents_wins(module: Any, name: str) -> None:
    assert module("soak_episodes").by_expert(name, episodes=20).status == Status.PASS


def test_a_lost_task_and_a_growing_process_are_failures(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    episodes, experts = module("soak_episodes"), module("soak_experts")
    wrong_way = experts.from_info(lambda info: "-")
    monkeypatch.setitem(experts.EXPERTS, "NumberLine", lambda player, task, start: wrong_way)
    sizes = iter([50.0, 60.0])
    monkeypatch.setattr(episodes, "resident_mb", lambda: next(sizes))
    by_name = {result.name: result for result in episodes.soak_environment("NumberLine", episodes=20)}
    assert by_name["expert"].status == by_name["memory"].status == Status.FAIL
    assert by_name["memory"].seen == "50.0 MiB after 2 episodes, 60.0 after 20: +10.0"


def test_a_part_that_fails_with_what_cannot_be_pickled_says_why(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Unpicklable(Exception):
        pass

    def fail() -> list[Any]:
        raise Unpicklable("the cause")

    soak = module("soak")
    monkeypatch.setattr(soak, "PARTS", {"Resume": fail})
    with pytest.raises(RuntimeError, match=r"(?s)Resume ended with.*Unpicklable: the cause") as error:
        soak.played("Resume")
    assert "the cause" in str(pickle.loads(pickle.dumps(error.value)))


def test_a_part_takes_its_place_on_the_page_and_leaves_the_others(module: Any) -> None:
    soak = module("soak")
    page = ""
    for name, text in (("Sokoban", "old"), ("Household", "levels"), ("Sokoban", "new")):
        page = soak.with_section(page, name, f"## {name}\n\n{text}\n")
    missing = [part for part in soak.PARTS if part not in ("Household", "Sokoban")]
    assert page.startswith(f"{soak.HEAD}\nNot run yet: {', '.join(missing)}.\n\n## Household")
    assert page.endswith("\n## Household\n\nlevels\n\n## Sokoban\n\nnew\n")
