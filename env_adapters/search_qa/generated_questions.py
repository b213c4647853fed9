"""Questions about a made-up world, and what an expert searches for to answer them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from rllib_gigpo.env_adapters.search_qa.generated_world import World, world
from rllib_gigpo.env_adapters.search_qa.questions import Question

DATA_SOURCE = "generated"
HOPS = (1, 2, 3)
# Of the people, towns and lands that are asked about, every fifth is kept for evaluation.
_EVALUATION_EVERY = 5
_STREAM = 0x71756573


class GeneratedQuestion(NamedTuple):
    """A question, and the names whose passages lead to its answer.

    Attributes:
        text: What is asked.
        answer: The answer, in the last of the passages.
        names: What the passages are about, in the order in which one finds out about them.
    """

    text: str
    answer: str
    names: tuple[str, ...]


class Questions(NamedTuple):
    """Questions to train on, and others, about other people, towns and lands, to evaluate with."""

    train: tuple[Question, ...]
    evaluation: tuple[Question, ...]


@lru_cache(maxsize=8)
def generated_questions(*, hops: int, seed: int = 0, num_people: int | None = None) -> Questions:
    """All questions with so many hops about the world of a seed, in an order drawn from the seed.

    Args:
        hops: Passages that it takes to find the answer, 1 to 3.
        seed: Of the world.
        num_people: In it; None for the usual number.
    """
    made_up = world(seed=seed) if num_people is None else world(seed=seed, num_people=num_people)
    sets: tuple[list[Question], list[Question]] = ([], [])
    about: dict[str, int] = {}  # what is asked about, numbered as it comes
    for index, asked in enumerate(questions_about(made_up, hops=hops)):
        number = about.setdefault(asked.names[0], len(about))
        name = f"{DATA_SOURCE}/{hops}-{index}"
        sets[number % _EVALUATION_EVERY == 0].append(Question(name, asked.text, (asked.answer,), DATA_SOURCE))
    rng = np.random.default_rng([_STREAM, seed])
    train, evaluation = (tuple(part[i] for i in rng.permutation(len(part))) for part in sets)
    return Questions(train, evaluation)


def generated_question(text: str, *, hops: int) -> GeneratedQuestion:
    """The question of that text about the world that environments ask about. Raises KeyError where there is none."""
    return _by_text(hops)[text]


def questions_about(made_up: World, *, hops: int) -> Iterator[GeneratedQuestion]:
    """All questions whose answer takes so many passages."""
    return _QUESTIONS[hops](made_up)


def expert_act(question: GeneratedQuestion, step: int) -> str:
    """The action of an expert at a step: it searches for one name after the other, and then answers."""
    if step < len(question.names):
        return f"<search>{question.names[step]}</search>"
    return f"<answer>{question.answer}</answer>"


@lru_cache(maxsize=len(HOPS))
def _by_text(hops: int) -> dict[str, GeneratedQuestion]:
    return {question.text: question for question in questions_about(world(), hops=hops)}


def _with_one_hop(made_up: World) -> Iterator[GeneratedQuestion]:
    for person in made_up.people.values():
        yield GeneratedQuestion(f"What is the job of {person.name}?", person.job, (person.name,))
        yield GeneratedQuestion(f"Which town is {person.name} from?", person.town, (person.name,))
    for town in made_up.towns.values():
        yield GeneratedQuestion(f"Which land is {town.name} in?", town.land, (town.name,))
        yield GeneratedQuestion(f"Which river is {town.name} on?", town.river, (town.name,))
    for land in made_up.lands.values():
        yield GeneratedQuestion(f"What is the capital of {land.name}?", land.capital, (land.name,))


def _with_two_hops(made_up: World) -> Iterator[GeneratedQuestion]:
    for person in made_up.people.values():
        town = made_up.towns[person.town]
        names = (person.name, town.name)
        yield GeneratedQuestion(f"Which land is {person.name} from?", town.land, names)
        yield GeneratedQuestion(f"Which river is the home town of {person.name} on?", town.river, names)
    for town in made_up.towns.values():
        capital = made_up.lands[town.land].capital
        yield GeneratedQuestion(
            f"What is the capital of the land that {town.name} is in?", capital, (town.name, town.land)
        )


def _with_three_hops(made_up: World) -> Iterator[GeneratedQuestion]:
    for person in made_up.people.values():
        land = made_up.lands[made_up.towns[person.town].land]
        yield GeneratedQuestion(
            f"What is the capital of the land that {person.name} is from?",
            land.capital,
            (person.name, person.town, land.name),
        )


_QUESTIONS: dict[int, Callable[[World], Iterator[GeneratedQuestion]]] = {
    1: _with_one_hop,
    2: _with_two_hops,
    3: _with_three_hops,
}
