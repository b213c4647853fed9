"""Cost of credit assignment, side by side with the same formulas in plain Python and with dictionaries and numpy.

    python benchmarks/advantages.py [--json FILE]

Prints seconds of processor time (the best of several, so that other work on the machine matters little) and the ratios
of the other versions to ours, and checks that all agree. The rows look like ALFWorld's: rollout groups of 8
trajectories of up to 50 steps, observations of 300 characters, 10 % invalid actions. Similarity grouping is measured on
6,400 rows, against the loop over difflib ratios, which takes minutes. Images have a benchmark of their own, images.py.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import dictionary_credit
import numpy as np
import typer
from machine import this_machine
from plain_credit import (
    GAMMA,
    LAMBDA,
    PENALTY,
    THRESHOLD,
    plain_anchor_ids,
    plain_gagpo,
    plain_gigpo,
    plain_similar_ids,
)

from rllib_gigpo.algorithms.gagpo.advantages import gagpo_advantages
from rllib_gigpo.algorithms.gigpo.advantages import gigpo_advantages
from rllib_gigpo.connectors.anchor_states import anchor_state_ids

MEMBERS, LONGEST, STATES, CHARACTERS, SIMILARITY_ROWS = 8, 50, 120, 300, 6_400
SIZES = (6_400, 40_000, 102_400, 1_000_000)
GROWTHS = ((6_400, 102_400), (40_000, 1_000_000))
REPEATS, REPEATS_OF_A_MILLION = 15, 3


def make_rows(rows: int) -> dict[str, Any]:
    """Columns of `rows` step rows, and their observations."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(5, LONGEST + 1, rows)
    trajectory_ids = np.repeat(np.arange(rows), lengths)[:rows]
    rewards = np.zeros(rows, np.float32)
    last = np.flatnonzero(np.append(trajectory_ids[1:] != trajectory_ids[:-1], True))
    rewards[last] = 10.0 * (rng.random(len(last)) < 0.4)
    padding = "you are in the middle of a room and see a shelf, a desk and a lamp. " * 5
    return {
        "rewards": rewards,
        "trajectory_ids": trajectory_ids,
        "group_ids": trajectory_ids // MEMBERS,
        "invalid": rng.random(rows) < 0.1,
        "observations": [f"room {state}: {padding}"[:CHARACTERS] for state in rng.integers(0, STATES, rows)],
    }


def make_similar_observations(rows: int) -> list[str]:
    """Each of the states is a text of its own random words, in which a number changes from visit to visit."""
    rng = np.random.default_rng(1)
    letters = np.array(list("etaoinshrdlucm"))
    vocabulary = ["".join(rng.choice(letters, rng.integers(2, 9))) for _ in range(400)]
    states = [" ".join(rng.choice(vocabulary, 60))[: CHARACTERS - 6] for _ in range(STATES)]
    visits = zip(rng.integers(0, STATES, rows), rng.integers(0, 100, rows), strict=True)
    return [f"{states[state]} {number:05d}" for state, number in visits]


def best_seconds(function: Callable[..., Any], inputs: Iterable[tuple[Any, ...]]) -> tuple[float, Any]:
    """Calls `function` with each of the `inputs`. Returns the least processor time of a call, and the last result."""
    seconds = []
    for arguments in inputs:
        start = time.process_time()
        result = function(*arguments)
        seconds.append(time.process_time() - start)
    return min(seconds), result


def own_copies(texts: list[str]) -> list[str]:
    """Equal texts, each a string object of its own, as environments make them: one that was hashed before is cheap to
    hash again."""
    return [(text + " ")[:-1] for text in texts]


class Seconds(NamedTuple):
    """Processor time of the same, written in three ways."""

    ours: float
    plain: float
    dictionaries: float | None  # not measured of similarity grouping, which has none

    def __add__(self, other: Any) -> Seconds:
        return Seconds(*(mine + its for mine, its in zip(self, other, strict=True)))


def report(rows: int, part: str, seconds: Seconds, ratios: dict[str, float]) -> None:
    ours, plain, dictionaries = seconds
    name = f"{part}, {rows:,} rows"
    ratios[f"{name}: plain for ours"] = plain / ours
    columns = [f"{rows:,}", part, f"{ours:.4f}", f"{plain:.4f}", f"{plain / ours:.1f}", "", ""]
    if dictionaries is not None:
        ratios[f"{name}: dictionaries for ours"] = dictionaries / ours
        columns[-2:] = f"{dictionaries:.4f}", f"{dictionaries / ours:.1f}"
    print(f"| {' | '.join(columns)} |", flush=True)


def measure_rows(rows: int, ratios: dict[str, float]) -> float:
    """Reports exact grouping and advantages. Returns our seconds for grouping and GiGPO together."""
    # The others' seconds are long enough to be measured once or twice.
    ours, others = (REPEATS, 2) if rows < 1_000_000 else (REPEATS_OF_A_MILLION, 1)
    columns = make_rows(rows)
    observations, group_ids = columns.pop("observations"), columns["group_ids"]

    def compared(*versions: Callable[..., Any], make: Callable[[], tuple[Any, ...]] = tuple) -> tuple[Seconds, Any]:
        """The time of our version, the plain one and the one with dictionaries; and ours' result, which all have."""
        seconds, results = zip(
            *(
                best_seconds(version, (make() for _ in range(others if place else ours)))
                for place, version in enumerate(versions)
            ),
            strict=True,
        )
        expected = getattr(results[0], "total", results[0])
        for result in results[1:]:
            np.testing.assert_allclose(expected, result, rtol=1e-5, atol=1e-5)
        return Seconds(*seconds), results[0]

    grouping, anchor_ids = compared(
        anchor_state_ids,
        plain_anchor_ids,
        dictionary_credit.anchor_ids,
        make=lambda: (own_copies(observations), group_ids),
    )
    report(rows, "anchor_state_ids", grouping, ratios)
    columns["anchor_ids"] = anchor_ids
    options = {**columns, "gamma": GAMMA, "invalid_action_penalty": PENALTY}
    gigpo, _ = compared(
        partial(gigpo_advantages, **options),
        partial(plain_gigpo, **columns),
        partial(dictionary_credit.gigpo, **columns),
    )
    report(rows, "gigpo_advantages", gigpo, ratios)
    report(rows, "grouping and GiGPO", grouping + gigpo, ratios)
    gagpo, _ = compared(
        partial(gagpo_advantages, **options, lambda_=LAMBDA),
        partial(plain_gagpo, **columns),
        partial(dictionary_credit.gagpo, **columns),
    )
    report(rows, "gagpo_advantages", gagpo, ratios)
    return grouping.ours + gigpo.ours


def measure_similarity(rows: int, ratios: dict[str, float]) -> None:
    group_ids = make_rows(rows)["group_ids"]
    observations = make_similar_observations(rows)
    rows_of = (observations, group_ids)
    plain, plain_ids = best_seconds(plain_similar_ids, [rows_of])
    for similarity in ("indel", "difflib"):
        grouping = partial(anchor_state_ids, similarity_threshold=THRESHOLD, similarity=similarity)
        ours, ids = best_seconds(grouping, [rows_of] * 3)
        if similarity == "difflib":
            assert ids.tolist() == plain_ids
        report(rows, f"similarity grouping, {similarity}", Seconds(ours, plain, None), ratios)


def main(json_file: Annotated[Path | None, typer.Option("--json", dir_okay=False)] = None) -> None:
    """Prints a Markdown table; with --json, writes the ratios too."""
    ratios: dict[str, float] = {}
    columns = ("rows", "part", "ours, s", "plain, s", "for ours", "dictionaries, s", "for ours")
    print(f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|")
    seconds = {rows: measure_rows(rows, ratios) for rows in SIZES}
    measure_similarity(SIMILARITY_ROWS, ratios)
    for few, many in GROWTHS:
        growth = ratios[f"growth from {few:,} to {many:,} rows"] = seconds[many] / seconds[few]
        print(
            f"\nGrouping and GiGPO of {many / few:.0f} times the rows, {few:,} to {many:,}: {growth:.1f} times as long"
        )
    print(f"\n{this_machine()}")
    if json_file is not None:
        json_file.write_text(json.dumps({"benchmark": "advantages", "ratios": ratios}, indent=1))


if __name__ == "__main__":
    typer.run(main)
