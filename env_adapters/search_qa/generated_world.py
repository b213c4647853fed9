"""A made-up world: people, who come from towns, which lie in lands; and a passage on each."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np

from rllib_gigpo.retrieval.passages import Passage

NUM_PEOPLE = 640
JOBS = ("baker", "doctor", "farmer", "painter", "potter", "sailor", "singer", "weaver")


def _names(beginnings: str, endings: str) -> tuple[str, ...]:
    return tuple(beginning + ending for beginning, ending in product(beginnings.split(), endings.split()))


FIRST_NAMES = _names("Be Ka Le Mi No Ra Su To", "lo na ra vi")
LAST_NAMES = _names("Bru Dar Hig Kor Nor Sal Tol Ven", "ado en ick ova")
TOWNS = _names("Ash Bri Dun Gol Kel Orm Tas Vel", "ford holm mar")
RIVERS = ("Ansel", "Brenk", "Cadow", "Isk", "Luth", "Mereth", "Orna", "Tave")
LANDS = ("Balvia", "Corland", "Estria", "Galmora", "Hestia", "Norvia", "Tarquin", "Ulmark")

MOST_PEOPLE = len(FIRST_NAMES) * len(LAST_NAMES)
# Sets these draws apart from any other use of a world's seed.
_STREAM = 0x776F726C


class Person(NamedTuple):
    """Somebody, with a job and the town of birth."""

    name: str
    job: str
    town: str


class Town(NamedTuple):
    """A town, with its land and its river."""

    name: str
    land: str
    river: str


class Land(NamedTuple):
    """A land, with its capital, one of its towns."""

    name: str
    capital: str


class World(NamedTuple):
    """Everything there is, by name."""

    people: dict[str, Person]
    towns: dict[str, Town]
    lands: dict[str, Land]

    def passages(self) -> Iterator[Passage]:
        """One on each person, town and land."""
        texts = [
            *(f'"{name}"\n{name} is a {job} from {town}.' for name, job, town in self.people.values()),
            *(
                f'"{name}"\n{name} is a town in {land} on the river {river}.'
                for name, land, river in self.towns.values()
            ),
            *(f'"{name}"\n{name} is a land with the capital {capital}.' for name, capital in self.lands.values()),
        ]
        return (Passage(str(number), text) for number, text in enumerate(texts))


@lru_cache(maxsize=8)
def world(*, seed: int = 0, num_people: int = NUM_PEOPLE) -> World:
    """The world of a seed, the same in any process.

    Raises:
        ValueError: `num_people` is not from 1 to `MOST_PEOPLE`, for whom there are names, or the seed is negative.
    """
    if not 1 <= num_people <= MOST_PEOPLE:
        raise ValueError(f"num_people is {num_people}; it must be from 1 to {MOST_PEOPLE}")
    if seed < 0:
        raise ValueError(f"seed is {seed}; it must be at least 0")
    rng = np.random.default_rng([_STREAM, seed])
    towns_in_order = [TOWNS[i] for i in rng.permutation(len(TOWNS))]
    # Each land has as many towns; the first of them is the capital.
    lands = {name: Land(name, towns_in_order[i]) for i, name in enumerate(LANDS)}
    towns = {
        name: Town(name, LANDS[i % len(LANDS)], RIVERS[rng.integers(len(RIVERS))])
        for i, name in enumerate(towns_in_order)
    }
    names = list(product(FIRST_NAMES, LAST_NAMES))
    people = {}
    for i in rng.permutation(len(names))[:num_people]:
        name = " ".join(names[i])
        people[name] = Person(name, JOBS[rng.integers(len(JOBS))], TOWNS[rng.integers(len(TOWNS))])
    return World(people, towns, lands)
