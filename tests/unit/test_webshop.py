"""WebShop as an environment, on a catalogue that is made up on the spot."""

from __future__ import annotations

import copy
import logging
import pickle
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from rllib_gigpo.agent_formats import PromptTemplate, Turn
from rllib_gigpo.columns import ENDING, IS_ACTION_VALID, RESPONSE_IDS, SCORE, WON
from rllib_gigpo.connectors.anchor_states import anchor_state_ids
from rllib_gigpo.env_adapters import make_env
from rllib_gigpo.env_adapters.webshop import WEBSHOP, packages
from rllib_gigpo.env_adapters.webshop.catalogue_building import build_generated
from rllib_gigpo.env_adapters.webshop.expert import expert_action
from rllib_gigpo.env_adapters.webshop.search_index import SearchIndex
from rllib_gigpo.env_adapters.webshop.shop import Shop
from rllib_gigpo.env_adapters.webshop.webshop_env import WebShop, _say_once_that_products_are_made_up
from rllib_gigpo.env_runners.rollout_metrics import rollout_metrics
from tests.environment_cases import passes_gymnasiums_checker
from tests.webshop_cases import needs_webshop

pytestmark = [pytest.mark.unit, needs_webshop]

LIMIT = r", and price lower than \d+\.00 dollars"


@pytest.fixture
def env() -> Iterator[WebShop]:
    env = WebShop(data="", title_words="words", anchor_state="state")
    yield env
    env.close()


def play(env: WebShop, *actions: str) -> tuple[Any, ...]:
    """The answer to the last of some actions."""
    return [env.step(action) for action in actions][-1]


def buy(env: WebShop) -> tuple[Any, ...]:
    """Has the expert go on to the end; the last answer."""
    while True:
        answer = env.step(expert_action(env.shop, env.goal, env.catalogue))
        if answer[2] or answer[3]:
            return answer


def test_it_passes_gymnasiums_checker_without_a_warning(env: WebShop) -> None:
    passes_gymnasiums_checker(env)


@pytest.mark.parametrize("goals", ["synthetic", "human"])
def test_the_expert_gets_the_score_of_1_for_every_goal(goals: str) -> None:
    env = WebShop(data="", goals=goals, num_products=60, title_words="words")
    splits = Counter()
    for number in range(env.catalogue.num_goals):
        num_valid = env.catalogue.num_goals // 5
        name = f"valid/{number}" if number < num_valid else f"train/{number - num_valid}"
        _, info = env.reset(options={"task": name})
        assert info["task_id"] == name and info["task_type"] == goals
        _, reward, terminated, _, info = buy(env)
        assert (reward, terminated, info["won"], info["score"]) == (10.0, True, True, 1.0), env.goal
        splits[name.split("/")[0]] += 1
    assert splits["train"] > 3 * splits["valid"] > 0


def test_goals_to_train_and_to_validate_with_differ_in_what_is_told() -> None:
    env = WebShop(data="")
    told: dict[str, set[str]] = {"train": set(), "valid": set()}
    for split, goals in told.items():
        for index in range(1000):
            try:
                goals.add(env.reset(options={"task": f"{split}/{index}"})[1]["task_description"])
            except ValueError:
                break
    assert len(told["train"]) + len(told["valid"]) == env.catalogue.num_goals and not told["train"] & told["valid"]
    assert env.reset(options={"task": 2**31 + 3})[1]["task_id"] == "valid/3", "numbers of the evaluation panel"


# Against the text mode of the published pages, from the search to the purchase.
def test_the_pages(env: WebShop) -> None:
    observation, info = env.reset(options={"task": "train/0"})
    told = info["task_description"]
    assert observation == f"WebShop [SEP] Instruction: [SEP] {told} [SEP] Search"
    assert info["admissible_actions"] == [f"search[{told}]"]
    assert (info["won"], info["score"]) == (False, 0.0)

    observation, reward, terminated, truncated, info = env.step("search[Dishwasher Safe travel mugs]")
    head = f"Instruction: [SEP] {told} [SEP] Back to Search [SEP] Page 1 (Total results: 50) [SEP] Next > [SEP] "
    assert observation.startswith(head) and (reward, terminated, truncated) == (0.0, False, False)
    shown = observation.removeprefix(head).split(" [SEP] ")
    asins, titles, prices = shown[::3], shown[1::3], shown[2::3]
    assert len(asins) == len(titles) == len(prices) == 10
    assert "Travel Mug" in titles[0] and "Dishwasher Safe" in titles[0]
    assert all(price.startswith("$") for price in prices)
    links = [f"click[{asin.lower()}]" for asin in asins]
    assert info["admissible_actions"] == ["click[back to search]", "click[next >]", *links]

    second = env.step("click[Next >]")[0]
    assert second.startswith(head.replace("Page 1", "Page 2").replace("Next >", "< Prev [SEP] Next >"))
    assert set(second.split(" [SEP] ")).isdisjoint(asins)
    assert env.step("click[< prev]")[0] == observation

    observation, *_, info = env.step(links[0])
    product = env.catalogue.product(asins[0])
    options = [text for name, values in product.options.items() for text in (name, *values)]
    assert observation.split(" [SEP] ") == [
        *("Instruction:", told, "Back to Search", "< Prev"),
        *options,
        *(product.title, f"Price: {prices[0]}", "Rating: N.A.", "Description", "Features", "Reviews", "Buy Now"),
    ]
    choices = [f"click[{value}]" for values in product.options.values() for value in values]
    buttons = ("back to search", "< prev", "description", "features", "reviews", "buy now")
    assert info["admissible_actions"] == [*(f"click[{button}]" for button in buttons), *choices]

    sub_page = f"Instruction: [SEP] {told} [SEP] Back to Search [SEP] < Prev"
    for button, texts in (
        ("Description", [product.description]),
        ("Features", list(product.features)),
        ("Reviews", []),
    ):
        assert env.step(f"click[{button}]")[0] == " [SEP] ".join([sub_page, *texts])
        assert env.step("click[< Prev]")[0] == observation
    observation, reward, terminated, _, info = env.step("click[buy now]")
    assert observation == "Thank you for shopping with us!" and terminated
    assert info["admissible_actions"] == [] and info["score"] == info["score_parts"]["score"]


def test_a_purchase_that_is_not_perfect_is_no_success_and_keeps_its_score() -> None:
    goal = {"task": "train/5"}
    env, scored = WebShop(data=""), WebShop(data="", reward_scheme="webshop")
    answers = []
    for shop in (env, scored):
        shop.reset(options=goal)
        title = shop.catalogue.product(shop.goal.asin).title
        assert shop.goal.options, "or buying without a choice would be right"
        answers.append(play(shop, f"search[{title}]", f"click[{shop.goal.asin}]", "click[buy now]"))
    (_, reward, terminated, _, info), (_, score, *_, scored_info) = answers
    assert (reward, terminated, info["won"]) == (0.0, True, False)
    assert 0 < info["score"] == score == scored_info["score"] < 1 and scored_info["won"] is False
    assert info["score_parts"]["options_met"] == 0.0 and info["score_parts"]["attributes_met"] == 1.0


@pytest.mark.parametrize(
    "action",
    [
        "",
        "buy now",
        "click[]",
        "click[nothing]",
        "click[search]",
        "search[]",
        "search[ ]",
        "click[buy now]",
        "\0",
        "ω" * 9,
    ],
)
def test_what_cannot_be_done_is_a_no_op_that_costs_a_step(action: str) -> None:
    env = WebShop(data="", max_steps=2, inadmissible_is_invalid=True)
    before, start = env.reset(options={"task": 0})
    observation, reward, terminated, truncated, info = env.step(action)
    assert (observation, reward, terminated, truncated) == (before, 0.0, False, False)
    assert (info["is_action_admissible"], info["is_action_valid"]) == (False, False)
    assert info["admissible_actions"] == start["admissible_actions"]
    assert env.step(action)[3], "the no-op did not count as a step"


def test_one_can_search_on_every_page_and_back_to_search_forgets(env: WebShop) -> None:
    env.reset(options={"task": 0})
    *_, info = play(env, "search[travel mug]", "click[next >]")
    *_, info = env.step(info["admissible_actions"][-1])
    choice = info["admissible_actions"][-1]
    chosen = play(env, choice)[4]
    assert chosen["anchor_state"] != info["anchor_state"] and env.shop.chosen
    assert play(env, "search[desk lamp]")[0].count("Desk Lamp") > 5
    assert not env.shop.chosen and env.shop.results_page == 1
    text, *_, info = play(env, "click[back to search]")
    assert text.endswith("Search") and info["anchor_state"] == env.reset(options={"task": 0})[1]["anchor_state"]


def test_going_back_to_the_results_gives_up_the_choice(env: WebShop) -> None:
    env.reset(options={"task": 0})
    results, *_, info = play(env, "search[travel mug]")
    *_, info = env.step(info["admissible_actions"][2])
    play(env, info["admissible_actions"][-1])
    assert env.shop.chosen
    assert play(env, "click[< prev]")[0] == results and not env.shop.chosen


def test_a_search_without_hits_shows_an_empty_page(env: WebShop) -> None:
    env.reset(options={"task": 0})
    text, *_, info = env.step("search[qqq the]")
    assert text.endswith("Page 1 (Total results: 0) [SEP] Next >")
    assert info["admissible_actions"] == ["click[back to search]", "click[next >]"]


def test_states_tell_pages_apart_that_look_alike(env: WebShop) -> None:
    shown, states = [], []
    for words, choices in (("red travel mug", 0), ("travel mug red", 0), ("travel mug red", 2)):
        env.reset(options={"task": 0})
        *_, info = play(env, f"search[{words}]")
        text, *_, info = env.step(info["admissible_actions"][2])
        for choice in info["admissible_actions"][-1 : -1 - choices : -1]:
            text, *_, info = env.step(choice)
        shown.append(text)
        states.append(info["anchor_state"])
    assert len(set(anchor_state_ids(shown, [0] * 3))) == 1, "the page shows neither words nor choices"
    assert len(set(anchor_state_ids(states, [0] * 3))) == 3


def test_the_step_limit_truncates_but_not_a_purchase_on_the_last_step() -> None:
    env = WebShop(data="", max_steps=3)
    for last, ending in (("click[description]", (False, True)), ("click[buy now]", (True, False))):
        _, info = env.reset(options={"task": 0})
        *_, info = play(env, "search[travel mug]")
        assert play(env, info["admissible_actions"][2], last)[2:4] == ending


def test_a_step_after_the_purchase_changes_nothing(env: WebShop) -> None:
    env.reset(options={"task": 0})
    text, *_, info = buy(env)
    for action in ("click[buy now]", "search[travel mug]"):
        again, reward, terminated, truncated, later = env.step(action)
        assert (again, reward, terminated, truncated) == (text, 0.0, True, False) and later["score"] == info["score"]


def test_a_task_alone_decides_the_goal(env: WebShop) -> None:
    other = WebShop(data="", anchor_state="state", max_steps=3)
    for task in (0, np.int64(7), 2**31, "valid/3"):
        assert env.reset(seed=1, options={"task": task}) == other.reset(seed=2, options={"task": task})
    assert other.reset(options={"task": env.reset(seed=5)[1]["task_id"]}) == env.reset(seed=5)
    assert env.reset(seed=5)[1]["task_id"].startswith("train/")
    with pytest.raises(ValueError, match=r"reset got options \['goal'\]"):
        env.reset(options={"goal": 1})


def test_copies_and_pickles_start_anew(env: WebShop) -> None:
    expected = env.reset(options={"task": 3})
    for other in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        with pytest.raises(RuntimeError, match="before reset"):
            other.step("search[mug]")
        assert other.reset(options={"task": 3}) == expected
    assert env.step("search[mug]")[0], "copying must not disturb the original"
    with pytest.raises(TypeError, match="WebShop takes text"):
        env.step(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"goals": "real"}, r"goals is 'real'; allowed are \['synthetic', 'human'\]"),
        ({"num_products": 0}, "num_products is 0; it must be an integer from 1 to 1000000"),
        ({"num_products": 1}, "made-up products: 1 products have 1 goals; 2 at least"),
        ({"max_steps": 0}, "max_steps is 0"),
        ({"title_words": "verbs"}, "title_words is 'verbs'"),
        ({"anchor_state": "page"}, "anchor_state is 'page'"),
        ({"reward_scheme": "dense"}, "reward_scheme is 'dense'"),
        ({"inadmissible_is_invalid": "no"}, "inadmissible_is_invalid is 'no'"),
    ],
)
def test_a_wrong_option_is_one_clear_error(options: dict[str, Any], message: str) -> None:
    goals = {"goals": "human"} if options == {"num_products": 1} else {}
    with pytest.raises(ValueError, match=message):
        WebShop(data="", **goals, **options)


def test_without_data_it_says_once_that_products_are_made_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("WEBSHOP_DATA", raising=False)
    _say_once_that_products_are_made_up.cache_clear()
    for _ in range(2):
        make_env("WebShop")
    WebShop(data="")
    assert len(caplog.records) == 1 and "set WEBSHOP_DATA" in caplog.text


def test_a_missing_extra_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bm25s", None)
    packages.packages.cache_clear()
    with pytest.raises(ImportError, match=r'bm25s is missing: pip install "rllib-gigpo\[webshop\]"'):
        WebShop(data="")
    monkeypatch.undo()
    packages.packages.cache_clear()
    logging.getLogger("bm25s").setLevel(logging.WARNING)


def test_the_prompt_shows_the_instruction_once_with_two_turns_and_the_actions(env: WebShop) -> None:
    prompt = PromptTemplate(WEBSHOP.agent_format.prompt_template)
    observation, info = env.reset(options={"task": 0})

    def rendered(history: list[Turn], step: int) -> str:
        task, actions = info["task_description"], info["admissible_actions"]
        return prompt.render(observation=observation, history=history, step=step, task=task, admissible_actions=actions)

    first = rendered([], 0)
    assert first.count(info["task_description"]) == 1 and "\nsearch[<words>]\n" in first and "Action:" not in first
    turns = [Turn(observation, "search[travel mug]")]
    observation, *_, info = env.step("search[travel mug]")
    turns.append(Turn(observation, ""))
    text = rendered(turns, 2)
    assert text.count(info["task_description"]) == 1 and "You have taken 2 actions" in text
    assert "- Page: WebShop [SEP] Search\n  Action: search[travel mug]\n- Page: Back to Search" in text
    assert "Action: none that is valid\n" in text and "\nclick[next >]\n" in text
    assert WEBSHOP.agent_format.history_length == 2


def test_equal_hits_come_in_the_order_of_the_products() -> None:
    index = SearchIndex.build(["red mug"] * 30 + ["blue mug"] * 30 + ["a red mug, red as red can be"])
    assert index.search("Red mugs", limit=5) == [60, 0, 1, 2, 3], "endings and case do not matter"
    assert index.search("the blue", limit=3) == [30, 31, 32]
    assert index.search("mug", limit=100) == [*range(60), 60]
    assert index.search("the of green", limit=3) == [] == SearchIndex.build([]).search("red", limit=3)


def test_the_value_of_the_last_of_two_options_is_chosen_where_both_have_it() -> None:
    catalogue = build_generated(5, "synthetic")
    shop = Shop(catalogue, "x")
    shop.act("search[mug kettle lamp chair socks backpack cream]")
    shop.act(f"click[{shop.text().split(' [SEP] ')[5]}]")
    assert shop.product is not None
    object.__setattr__(shop.product, "options", {"color": ("one", "red"), "size": ("one",)})
    assert shop.act("click[ONE]") and shop.chosen == {"size": "one"}, "as on the published pages"


def test_scores_are_in_the_metrics() -> None:
    def episode(score: float | None) -> SingleAgentEpisode:
        found = SingleAgentEpisode()
        found.add_env_reset("page", {"group_id": 0})
        info = {IS_ACTION_VALID: True, WON: False, ENDING: "lost", **({} if score is None else {SCORE: score})}
        found.add_env_step("page", "act", 0.0, info, extra_model_outputs={RESPONSE_IDS: np.array([1])})
        return found

    assert rollout_metrics([episode(0.25), episode(0.75)], Counter())["score_mean"] == 0.5
    assert "score_mean" not in rollout_metrics([episode(None)], Counter())
