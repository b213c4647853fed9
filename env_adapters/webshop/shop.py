"""The shop as one shopper sees it: pages, and what can be done on them, as in WebShop's text mode."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from rllib_gigpo.env_adapters.webshop.catalogue import Catalogue
from rllib_gigpo.env_adapters.webshop.products import Product

PageName = Literal["search", "results", "item", "description", "features", "reviews", "done"]

SEPARATOR = " [SEP] "
MOST_HITS = 50
_HITS_OF_A_PAGE = 10
_SEARCH, _NEXT, _PREVIOUS, _BACK, _BUY = "Search", "Next >", "< Prev", "Back to Search", "Buy Now"
_SUB_PAGES: tuple[PageName, ...] = ("description", "features", "reviews")
_ACTION = re.compile(r"(search|click)\[(.+)\]")


class Click(NamedTuple):
    """What a button, a link or a choice does.

    Attributes:
        kind: "button", "product" or "option".
        name: The text of the button, the asin of the product, or the name of the option.
        value: Of the option.
    """

    kind: Literal["button", "product", "option"]
    name: str
    value: str = ""


class Shop:
    """One visit to the shop.

    Attributes:
        instruction: What the shopper is told.
        page: Where the shopper is.
        words: What was searched for; None before the first search and on the search page.
        results_page: The page of results, from 1 on.
        product: What is looked at, or was bought; None elsewhere.
        chosen: Its options that were chosen, by name.
    """

    page: PageName
    words: str | None
    results_page: int
    product: Product | None
    chosen: dict[str, str]
    _hits: list[str]  # asins

    def __init__(self, catalogue: Catalogue, instruction: str):
        self._catalogue = catalogue
        self.instruction = instruction
        self._go_to_search()

    # --- What is shown.

    def text(self) -> str:
        """The page, as a text: what can be read on it, from top to bottom, between separators."""
        if self.page == "done":
            return "Thank you for shopping with us!"
        head = ["WebShop"] if self.page == "search" else []
        lines = [*head, "Instruction:", self.instruction, *self._body()]
        return SEPARATOR.join(line for text in lines if (line := text.strip()))

    def clicks(self) -> dict[str, Click]:
        """What can be clicked on, by its text in lower case with single spaces, in the order of the page."""
        return {_normal(text): click for text, click in self._clicks() if text != _SEARCH}

    @property
    def has_search_bar(self) -> bool:
        return self.page == "search"

    def state(self) -> str:
        """Where the shopper is and what was chosen: two visits with one goal and equal states have one future."""
        chosen = ", ".join(f"{name}={value}" for name, value in sorted(self.chosen.items()))
        asin = "" if self.product is None else self.product.asin
        return f"{self.page} | words: {self.words or ''} | results {self.results_page} | {asin} | {chosen}"

    # --- What is done.

    def act(self, action: str) -> bool:
        """Carries out "search[words]" or "click[text]"; whether it could be. What cannot be changes nothing.

        As published one can search on every page, though only one shows a search bar, and case does not matter.
        """
        match = _ACTION.match(_normal(action))
        if match is None or self.page == "done":
            return False
        verb, argument = match[1], match[2].strip()
        if verb == "search":
            if argument:
                self._go_to_results(argument, 1)
            return bool(argument)
        click = self.clicks().get(argument)
        if click is None:
            return False
        self._click(click)
        return True

    def _click(self, click: Click) -> None:
        if click.kind == "product":
            self.product, self.chosen = self._catalogue.product(click.name), {}
            self.page = "item"
        elif click.kind == "option":
            self.chosen[click.name] = click.value
        elif click.name == _BACK:
            self._go_to_search()
        elif click.name == _BUY:
            self.page = "done"
        elif click.name == _NEXT:
            self._go_to_results(self.words or "", self.results_page + 1)
        elif click.name == _PREVIOUS:
            self._go_back()
        else:
            self.page = next(page for page in _SUB_PAGES if page == click.name.lower())

    def _go_back(self) -> None:
        if self.page in _SUB_PAGES:
            self.page = "item"
        else:
            self._go_to_results(self.words or "", self.results_page - (self.page == "results"))

    def _go_to_search(self) -> None:
        self.page = "search"
        self.words = None
        self._hits = []
        self.results_page = 1
        self.product, self.chosen = None, {}

    def _go_to_results(self, words: str, results_page: int) -> None:
        if words != self.words:
            self._hits = self._catalogue.search(words, limit=MOST_HITS)
        self.page, self.words, self.results_page = "results", words, results_page
        self.product, self.chosen = None, {}

    # --- Parts of a page.

    def _body(self) -> list[str]:
        """What follows the instruction: texts that cannot be clicked on, and those that can."""
        if self.page == "search":
            return [_SEARCH]
        if self.page == "results":
            found = [_BACK, f"Page {self.results_page} (Total results: {len(self._hits)})", *self._turns()]
            for product in self._shown():
                found += [product.asin, product.title, product.price_tag]
            return found
        assert self.product is not None
        product = self.product
        if self.page == "item":
            options = [text for name, values in product.options.items() for text in (name, *values)]
            facts = [product.title, f"Price: {product.price_tag}", "Rating: N.A."]
            return [_BACK, _PREVIOUS, *options, *facts, *map(str.title, _SUB_PAGES), _BUY]
        # The public data has no reviews.
        texts = {"description": [product.description], "features": list(product.features)}
        return [_BACK, _PREVIOUS, *texts.get(self.page, [])]

    def _clicks(self) -> list[tuple[str, Click]]:
        buttons = {
            "search": [_SEARCH],
            "results": [_BACK, *self._turns()],
            "item": [_BACK, _PREVIOUS, *map(str.title, _SUB_PAGES), _BUY],
            "done": [],
        }.get(self.page, [_BACK, _PREVIOUS])
        found = [(text, Click("button", text)) for text in buttons]
        if self.page == "results":
            found += [(product.asin, Click("product", product.asin)) for product in self._shown()]
        elif self.page == "item" and self.product is not None:
            for name, values in self.product.options.items():
                found += [(value, Click("option", name, value)) for value in values]
        return found

    def _turns(self) -> list[str]:
        return [_PREVIOUS, _NEXT] if self.results_page > 1 else [_NEXT]

    def _shown(self) -> list[Product]:
        start = (self.results_page - 1) * _HITS_OF_A_PAGE
        return [self._catalogue.product(asin) for asin in self._hits[start : start + _HITS_OF_A_PAGE]]


def _normal(text: str) -> str:
    return " ".join(text.lower().split())
