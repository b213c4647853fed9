"""What SearchQA shows, for a comparison between processes; this module imports little."""

from __future__ import annotations

from typing import Any

from rllib_gigpo.env_adapters.generated_tasks import TASKS
from rllib_gigpo.env_adapters.search_qa.search_qa import SearchQA


def first_answers() -> str:
    """What some tasks and seeds show, and what a search finds for them."""
    env = SearchQA(hops=2)
    shown: list[Any] = []
    for task in (0, 5, TASKS):
        shown += [env.reset(options={"task": task}), env.step("<search>a town on the river Isk</search>")]
    for seed in range(3):
        shown += [env.reset(seed=seed), env.step("<search>a land</search>")]
    return repr(shown)
