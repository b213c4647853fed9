"""WebShop as an environment: a shop in text, and a product to be found and bought."""

from __future__ import annotations

import logging
import os
import string
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import gymnasium as gym
from gymnasium import spaces

from rllib_gigpo.env_adapters.generated_tasks import TASKS, check_choice, check_integer
from rllib_gigpo.env_adapters.webshop.catalogue import Catalogue
from rllib_gigpo.env_adapters.webshop.catalogue_cache import catalogue_of, default_cache_folder
from rllib_gigpo.env_adapters.webshop.data_files import DATA_VARIABLE, DataFiles, data_files
from rllib_gigpo.env_adapters.webshop.generated_catalogue import MOST_PRODUCTS
from rllib_gigpo.env_adapters.webshop.goals import GOAL_KINDS, Goal
from rllib_gigpo.env_adapters.webshop.packages import packages
from rllib_gigpo.env_adapters.webshop.score import Score, score_purchase
from rllib_gigpo.env_adapters.webshop.shop import Shop
from rllib_gigpo.env_adapters.webshop.splits import goal_number, task_id_of
from rllib_gigpo.env_adapters.webshop.title_words import TITLE_WORDS, title_words

logger = logging.getLogger(__name__)

SUCCESS_REWARD = 10.0
GENERATED_PRODUCTS = 200
_LONGEST_PAGE = 2**20  # characters


class WebShop(gym.Env[str, str]):
    """A shop and an instruction such as "Find me a travel mug that is bpa free with color: red, and price lower than
    40.00 dollars" (Yao et al. 2022).

    Observation: text, the page that the shopper sees, as in WebShop's text mode: what stands on it, between " [SEP] ",
    the instruction first. Which options were chosen stands nowhere.

    Action: text, "search[words]", or "click[text]" with the text of a button, a product's number or the value of an
    option. Case and surplus spaces do not matter. Any other text, "" included, is a no-op, and the step counts.

    Reward: +10 for buying what has the score 1, 0 for everything else; with `reward_scheme="webshop"`, the score of
    what is bought, from 0 to 1. Buying terminates; `max_steps` truncates.

    A task is a number or a name. Numbers below 2**31 go through the goals to train with and begin anew after the last
    one, those from there on, which the evaluation panel uses, through the goals to validate with: the first 500 of the
    shuffled goals, or a fifth where there are fewer than 2,500. Names are "train/17" and "valid/17". The same task is
    the same goal in every process.

    Infos hold `won`, `score` (0 until something is bought), `task_id`, `task_type` (the kind of goal),
    `task_description`, `admissible_actions` and, with `anchor_state="state"`, `anchor_state`; after a step,
    `is_action_admissible` and, with `inadmissible_is_invalid=True`, `is_action_valid`; after a purchase `score_parts`.
    The admissible search is for the whole instruction; any other words will do.

    Copying or pickling an environment leaves a visit in progress behind; the copy has to be reset.

    Attributes:
        skipped: How many rows and goals of the data were left out, by reason, and how many products have no price.

    Args:
        data: Folder with WebShop's public data. None: the one that the variable WEBSHOP_DATA names; without that, or
            with "", a catalogue that is made up on the spot.
        num_products: How many products, the first ones; None for all, or 200 that are made up.
        goals: "synthetic", one for each combination of a product's options, or "human", written by people.
        max_steps: Steps after which an episode is truncated.
        reward_scheme: "verl-agent" (Feng et al. 2025, GiGPO) or "webshop" (Yao et al. 2022), see above.
        anchor_state: "shown", steps are comparable where the same page was shown, as in the papers; or "state", where
            also the same options were chosen and the same words searched for.
        inadmissible_is_invalid: Whether an action that cannot be carried out counts as an invalid one. In the papers
            only a response without an action does.
        title_words: Which words of titles the score compares: "nouns", as published, which takes spaCy and one of its
            models; "words", all but stop words; "auto", nouns where a model is installed.
        cache: Folder for catalogues and search indices of data in files. None: $WEBSHOP_CACHE, else a folder in the
            user's cache.

    Raises:
        ImportError: The extra is not installed, or "nouns" lacks a model.
        FileNotFoundError: The data folder or a file of it is missing.
        BrokenFileError: A file cannot be read.
        ValueError: An option has a value that is not allowed, or there are too few goals or products.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 (gymnasium's own declaration)

    _shop: Shop | None  # None before a reset
    _goal: Goal
    _task_id: str
    _score: Score | None  # None before a purchase

    def __init__(
        self,
        *,
        data: str | os.PathLike[str] | None = None,
        num_products: int | None = None,
        goals: str = "synthetic",
        max_steps: int = 15,
        reward_scheme: str = "verl-agent",
        anchor_state: str = "shown",
        inadmissible_is_invalid: bool = False,
        title_words: str = "auto",
        cache: str | os.PathLike[str] | None = None,
    ):
        check_choice("goals", goals, GOAL_KINDS)
        check_choice("reward_scheme", reward_scheme, ("verl-agent", "webshop"))
        check_choice("anchor_state", anchor_state, ("shown", "state"))
        check_choice("inadmissible_is_invalid", inadmissible_is_invalid, (False, True))
        check_choice("title_words", title_words, TITLE_WORDS)
        check_integer("max_steps", max_steps, lowest=1)
        packages()  # raises here rather than deep inside
        folder = _data_folder(data)
        if num_products is not None:
            check_integer("num_products", num_products, lowest=1, highest=None if folder else MOST_PRODUCTS)
        self._source: DataFiles | tuple[int, str]
        if folder is None:
            self._source = (num_products or GENERATED_PRODUCTS, goals)
        else:
            self._source = data_files(folder, goal_kind=goals, num_products=num_products)
        self._cache = (Path(cache).expanduser() if cache is not None else default_cache_folder()).resolve()
        self._goal_kind = goals
        self._max_steps = max_steps
        self._reward_is_score = reward_scheme == "webshop"
        self._anchor_is_state = anchor_state == "state"
        self._inadmissible_is_invalid = inadmissible_is_invalid
        self._title_words = _title_words(title_words)
        catalogue = self.catalogue
        self.skipped = dict(catalogue.skipped)
        characters = frozenset(string.printable + catalogue.characters)
        self.observation_space = spaces.Text(min_length=1, max_length=_LONGEST_PAGE, charset=characters)
        self.action_space = spaces.Text(min_length=0, max_length=_LONGEST_PAGE, charset=characters)
        self._leave()

    @property
    def catalogue(self) -> Catalogue:
        """Products, goals and search; one for all environments of a process that sell the same."""
        return catalogue_of(self._source, self._cache)

    @property
    def shop(self) -> Shop:
        """The state, for experts and tests. Raises RuntimeError before the first reset."""
        if self._shop is None:
            raise RuntimeError("WebShop.step was called before reset")
        return self._shop

    @property
    def goal(self) -> Goal:
        """What is to be bought, for experts and tests."""
        return self._goal

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Enters the shop with the goal of `options["task"]`, a number of at least 0 or a name, or of a number of the
        training goals drawn from the seed.

        Raises:
            TypeError: The task is neither an integer nor a text.
            ValueError: The task is negative or no goal's name, or `options` has another key.
        """
        super().reset(seed=seed)
        options = options or {}
        if unknown := sorted(set(options) - {"task"}):
            raise ValueError(f"reset got options {unknown}; the only known one is 'task'")
        task = options.get("task")
        catalogue = self.catalogue
        number = goal_number(int(self.np_random.integers(TASKS)) if task is None else task, catalogue.num_goals)
        self._leave()
        self._goal = catalogue.goal(number)
        self._task_id = task_id_of(number, catalogue.num_goals)
        self._shop = Shop(catalogue, self._goal.instruction)
        return self._shop.text(), self._info()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Searches or clicks, or does nothing.

        Raises:
            TypeError: The action is not a text.
            RuntimeError: The environment was never reset.
        """
        if not isinstance(action, str):
            raise TypeError(
                f"action is {action!r} of type {type(action).__name__}; WebShop takes text, e.g. 'click[buy now]'"
            )
        was_bought = self._score is not None
        is_admissible = self.shop.act(action)
        self._steps += 1
        reward, bought = 0.0, self.shop.page == "done"
        if bought and not was_bought:
            self._score = self._score_of_purchase()
            reward = self._score.score if self._reward_is_score else SUCCESS_REWARD * self._won
        info = {**self._info(), "is_action_admissible": is_admissible}
        if self._inadmissible_is_invalid:
            info["is_action_valid"] = is_admissible
        if self._score is not None:
            info["score_parts"] = self._score._asdict()
        return self.shop.text(), reward, bought, self._steps >= self._max_steps and not bought, info

    def close(self) -> None:
        """Leaves the shop. The catalogue stays, for other environments of this process."""
        self._leave()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_shop"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._leave()

    def _leave(self) -> None:
        self._shop = None
        self._score = None
        self._steps = 0

    @property
    def _won(self) -> bool:
        # Sums of whole numbers over their count: a purchase without a flaw is 1 exactly.
        return self._score is not None and self._score.score == 1.0

    def _score_of_purchase(self) -> Score:
        bought, wanted = self.shop.product, self.catalogue.product(self._goal.asin)
        assert bought is not None
        return score_purchase(bought, self.shop.chosen, self._goal, wanted, self._title_words)

    def _info(self) -> dict[str, Any]:
        search = [f"search[{self._goal.instruction}]"] if self.shop.has_search_bar else []
        info = {
            "won": self._won,
            "score": 0.0 if self._score is None else self._score.score,
            "task_id": self._task_id,
            "task_type": self._goal_kind,
            "task_description": self._goal.instruction,
            "admissible_actions": [*search, *(f"click[{text}]" for text in self.shop.clicks())],
        }
        if self._anchor_is_state:
            info["anchor_state"] = self.shop.state()
        return info


# In the class this name is an argument.
_title_words = title_words


def _data_folder(data: str | os.PathLike[str] | None) -> Path | None:
    """The folder of the data, None where none is named."""
    named = data if data is not None else os.environ.get(DATA_VARIABLE)
    if named is not None and str(named):
        return Path(named).expanduser().resolve()
    if data is None:
        _say_once_that_products_are_made_up()
    return None


@cache
def _say_once_that_products_are_made_up() -> None:
    logger.warning(
        "WebShop sells a few products that are made up on the spot: no data folder is named. For the benchmark's own "
        "products set %s, or env_config['data'], to the folder with its files",
        DATA_VARIABLE,
    )
