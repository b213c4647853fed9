"""Long runs of the environments and of resuming, and the page that says what came out.

    python benchmarks/soak.py                         all parts: about half an hour, most for ALFWorld and Resume
    python benchmarks/soak.py NumberLine ALFWorld     some of them; the page keeps the others

Each part runs in a process of its own, and then has its place in docs/soak.md. Exits with an error where a check fails.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from machine import this_machine
from soak_episodes import MOST_GROWTH_MB, WARM_UP, at_random, soak_environment
from soak_experts import EXPERTS

from rllib_gigpo.env_checks.check_result import CheckResult, Status

PAGE = Path(__file__).parents[1] / "docs" / "soak.md"
EPISODES = 1000


def soak(module: str, what: str, **options: Any) -> list[CheckResult]:
    """Calls a function of a module."""
    # Imported for its parts alone: it brings RLlib, hundreds of megabytes in which a leak of another part is lost.
    results: list[CheckResult] = getattr(import_module(module), what)(**options)
    return results


PARTS: Mapping[str, Callable[[], list[CheckResult]]] = {
    **{
        name: partial(soak_environment, name, episodes=EPISODES)
        for name in sorted(EXPERTS, key=lambda n: (n.startswith("ALFWorld"), n))
    },
    # Of a game of others: nobody here knows how to win it.
    "TextArena": partial(at_random, "TextArena", episodes=EPISODES),
    "ALFWorld-splits": partial(soak, "soak_alfworld", "splits", games=2),
    "ALFWorld-workers": partial(soak, "soak_alfworld", "in_workers", episodes=200),
    "ALFWorld-stock": partial(soak, "soak_alfworld", "beside_stock", games=1, steps=20),
    "ALFWorld-anchors": partial(soak, "soak_alfworld", "anchor_states"),
    "Resume": partial(soak, "soak_resume", "resume"),
    "Chaos": partial(soak, "soak_chaos", "chaos", iterations=20),
    "Memory": partial(soak, "soak_memory", "memory"),
    "Examples": partial(soak, "soak_examples", "examples"),
}

HEAD = f"""\
# Soak runs

Written by `make soak`, part by part (`python benchmarks/soak.py PART ...`); edits are lost. Each part names its
machine, how busy that was, and the commit. Speeds are per second of CPU time, which other work on a machine lengthens
too; ratios are measured side by side.

* **expert**: one who sees more than an agent, or asks a solver or planner, plays {EPISODES:,} tasks, and must win all
  that can be won.
* **random**: the same tasks, by actions drawn uniformly among the admissible ones.
* **memory**: resident memory of the process that plays at random, after {WARM_UP:.0%} of the episodes and at the end.
  It may grow by {MOST_GROWTH_MB:g} MiB: a leak of 5 KiB an episode is more than that, an allocator that takes a block
  now and then is less.
* **seed N** of Resume: a training is killed with -9 at a moment that the seed draws, and resumed. The next update, and
  with Tune the last, must be that of an uninterrupted run within 1e-6, on the same tasks, with the same counters and
  learning rate.
* **Chaos**: 20 iterations under Tune, in each of which but the first and the last something is killed, hangs or raises,
  a learner once. Every group must be counted once; success must be that of a quiet run, within three standard errors.
* **Memory**: resident memory of driver, env runner and learner may grow by 10% from the 20th to the 200th iteration.
* **Examples**: `rllib example run ID --smoke` of each of them: an iteration with a tiny model and little data.
"""


def played(name: str) -> list[CheckResult]:
    """The results of a part, in the process that plays it.

    Raises:
        RuntimeError: It failed; with the traceback as text, since not every exception of Ray can leave its process.
    """
    try:
        return PARTS[name]()
    except Exception:
        problem = traceback.format_exc()
    raise RuntimeError(f"{name} ended with\n{problem}")


def run_part(name: str) -> tuple[list[CheckResult], str]:
    """Plays one part in a new process: its results, and its section of the page."""
    load, began = os.getloadavg()[0], time.perf_counter()
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        results = pool.submit(played, name).result()
    seconds = time.perf_counter() - began
    machine = ", ".join(f"{key.replace('_', ' ')}: {value}" for key, value in this_machine(("numpy",)).items())
    rows = [f"| {result.name} | {result.status} | {result.seen} |" for result in results]
    lines = [
        f"## {name}",
        "",
        "| check | status | seen |",
        "| --- | --- | --- |",
        *rows,
        "",
        f"`python benchmarks/soak.py {name}`, {seconds:.0f} s; load average before: {load:.1f}, after: "
        f"{os.getloadavg()[0]:.1f}; {machine}.",
    ]
    return results, "\n".join(lines) + "\n"


def with_section(page: str, name: str, section: str) -> str:
    """The page with a part's section in its place; sections of unknown parts are dropped, missing ones are named."""
    _, *others = page.split("\n## ")
    sections = {other.partition("\n")[0]: f"## {other.rstrip()}\n" for other in others} | {name: section}
    missing = [part for part in PARTS if part not in sections]
    head = f"{HEAD}\nNot run yet: {', '.join(missing)}.\n" if missing else HEAD
    return "\n".join([head, *(sections[part] for part in PARTS if part in sections)])


def main() -> None:
    """Runs the parts that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; default: all")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page to write (default %(default)s)")
    arguments = parser.parse_args()
    if unknown := [part for part in arguments.parts if part not in PARTS]:
        parser.error(f"unknown parts {unknown}; known are {', '.join(PARTS)}")

    page: Path = arguments.page
    failures = []
    for name in arguments.parts or PARTS:
        results, section = run_part(name)
        print(section, flush=True)
        page.write_text(with_section(page.read_text() if page.exists() else "", name, section), encoding="utf-8")
        failures += [f"{name}: {result.name}: {result.seen}" for result in results if result.status == Status.FAIL]
    if failures:
        sys.exit("\n".join(failures))


if __name__ == "__main__":
    main()
