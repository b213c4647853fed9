"""Builds the embedded model of SearchQA from that of Household, for searches with `TINY_OPTIONS`.

    python -m rllib_gigpo.env_adapters.search_qa.embedded_search_qa OUT

How it is warmed up, and on what, says `env_adapters/warm_up.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from functools import cache
from pathlib import Path

from rllib_gigpo.agent_formats import Turn as EarlierTurn
from rllib_gigpo.env_adapters.demonstrations import Turn
from rllib_gigpo.env_adapters.household import HOUSEHOLD
from rllib_gigpo.env_adapters.search_qa import SEARCH_QA, TINY_OPTIONS
from rllib_gigpo.env_adapters.search_qa.expert import Search
from rllib_gigpo.env_adapters.search_qa.generated_questions import generated_question
from rllib_gigpo.env_adapters.search_qa.generated_world import world
from rllib_gigpo.env_adapters.search_qa.search_qa import SearchQA
from rllib_gigpo.env_adapters.warm_up import WarmUp, build

HOPS = (1, 2)  # of the questions


def spaced_response(thought: str, action: str) -> str:
    """The response of a thought and an action, with a blank behind every opening tag: names then are the same tokens
    wherever they stand."""
    return f"<think> {thought}</think>{action.replace('>', '> ', 1)}"


WARM_UP = WarmUp(
    donor=HOUSEHOLD.embedded_model,
    reading_steps=900,
    reading_learning_rate=3e-3,
    weak_expert_probability=0.3,
    weak_steps=150,
    weak_learning_rate=1.5e-3,
    response=spaced_response,
    tags=("<think>", "</think>", "<search>", "</search>", "<answer>", "</answer>"),
)


def game(task: int) -> Generator[Turn, str, None]:
    """A question of SearchQA with one or two hops, for demonstrations."""
    hops = HOPS[task % len(HOPS)]
    env = _environment(hops)
    observation, info = env.reset(options={"task": task // len(HOPS)})
    search = Search(generated_question(info["task_description"], hops=hops), world())
    history: list[EarlierTurn] = []
    ended = False
    while not ended:
        action = yield search.turn(observation=observation, history=history)
        history.append(EarlierTurn(observation, action))
        observation, _, terminated, truncated, info = env.step(action)
        search.looks_up(action)
        ended = terminated or truncated


@cache
def _environment(hops: int) -> SearchQA:
    return SearchQA(hops=hops, **TINY_OPTIONS)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: python -m {__spec__.name} OUT")
    build(Path(sys.argv[1]), game, SEARCH_QA.agent_format, WARM_UP)
