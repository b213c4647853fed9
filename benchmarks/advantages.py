"""Cost of credit assignment, side by side with plain per-row Python of the same formulas.

    python benchmarks/advantages.py [--json FILE]

Prints seconds of processor time (the best of several, so that other work on the machine matters little) and the ratio
of the plain version to ours, and checks that both agree. The rows look like ALFWorld's: rollout groups of 8
trajectories of up to 50 steps, observations of 300 characters, 10 % invalid actions. Similarity grouping is measured on
6,400 rows, against the loop over difflib ratios, which takes minutes. Images have a benchmark of their own, images.py.
"""

from __future__ import annotations

import json
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from difflib import SequenceMatcher
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from machine import this_machine

from rllib_gigpo.algorithms.gagpo.advantages import gagpo_advantages
from rllib_gigpo.algorithms.gigpo.advantages import gigpo_advantages
from rllib_gigpo.connectors.anchor_states import anchor_state_ids

MEMBERS, LONGEST, STATES, GAMMA, LAMBDA, PENALTY = 8, 50, 120, 0.95, 0.95, 0.1
CHARACTERS, THRESHOLD, SIMILARITY_ROWS = 300, 0.95, 6_400
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


def plain_anchor_ids(keys: Iterable[Any], group_ids: np.ndarray) -> list[int]:
    seen: dict[tuple[int, Any], int] = {}
    ids = []
    for i, key in enumerate(keys):
        pair = (group_ids[i], key)
        if pair not in seen:
            seen[pair] = len(seen)
        ids.append(seen[pair])
    return ids


def plain_similar_ids(observations: list[str], group_ids: np.ndarray) -> list[int]:
    leaders: dict[int, list[tuple[str, int]]] = defaultdict(list)
    ids: list[int] = []
    next_id = 0
    for i, observation in enumerate(observations):
        for leader, state in leaders[group_ids[i]]:
            if SequenceMatcher(None, observation, leader).ratio() >= THRESHOLD:
                ids.append(state)
                break
        else:
            leaders[group_ids[i]].append((observation, next_id))
            ids.append(next_id)
            next_id += 1
    return ids


def plain_returns(penalised: list[float], trajectory_ids: np.ndarray, factor: float) -> list[float]:
    returns = [0.0] * len(penalised)
    for i in range(len(penalised) - 1, -1, -1):
        follows = i + 1 < len(penalised) and trajectory_ids[i + 1] == trajectory_ids[i]
        returns[i] = penalised[i] + (factor * returns[i + 1] if follows else 0.0)
    return returns


def plain_gigpo(
    rewards: np.ndarray, trajectory_ids: np.ndarray, group_ids: np.ndarray, anchor_ids: Any, invalid: np.ndarray
) -> list[float]:
    penalised = [float(r) - PENALTY * float(bad) for r, bad in zip(rewards, invalid, strict=True)]
    returns = plain_returns(penalised, trajectory_ids, GAMMA)
    totals: dict[int, float] = defaultdict(float)
    group_of: dict[int, int] = {}
    for i in range(len(penalised)):
        totals[trajectory_ids[i]] += penalised[i]
        group_of[trajectory_ids[i]] = group_ids[i]
    episode = dict(zip(totals, plain_normalize(list(totals.values()), [group_of[t] for t in totals]), strict=True))
    step = plain_normalize(returns, list(zip(group_ids, anchor_ids, strict=True)))
    return [episode[trajectory_ids[i]] + step[i] for i in range(len(returns))]


def plain_gagpo(
    rewards: np.ndarray, trajectory_ids: np.ndarray, group_ids: np.ndarray, anchor_ids: Any, invalid: np.ndarray
) -> list[float]:
    penalised = [float(r) - PENALTY * float(bad) for r, bad in zip(rewards, invalid, strict=True)]
    returns = plain_returns(penalised, trajectory_ids, GAMMA)
    of_state: dict[Any, list[float]] = defaultdict(list)
    for i in range(len(returns)):
        of_state[group_ids[i], anchor_ids[i]].append(returns[i])
    value_of = {state: sum(members) / len(members) for state, members in of_state.items()}
    errors = []
    for i in range(len(returns)):
        follows = i + 1 < len(returns) and trajectory_ids[i + 1] == trajectory_ids[i]
        after = value_of[group_ids[i + 1], anchor_ids[i + 1]] if follows else 0.0
        error = penalised[i] + GAMMA * after - value_of[group_ids[i], anchor_ids[i]]
        errors.append(0.0 if abs(error) <= 1e-9 else error)
    return plain_normalize(plain_returns(errors, trajectory_ids, GAMMA * LAMBDA), list(group_ids))


def plain_normalize(values: list[float], keys: list[Any]) -> list[float]:
    members: dict[Any, list[float]] = defaultdict(list)
    for value, key in zip(values, keys, strict=True):
        members[key].append(value)
    scales = {}
    for key, group in members.items():
        flat = max(group) - min(group) <= 1e-6 * max(abs(x) for x in group)
        scales[key] = None if flat else (sum(group) / len(group), statistics.stdev(group) + 1e-6)
    out = []
    for value, key in zip(values, keys, strict=True):
        scale = scales[key]
        out.append(0.0 if scale is None else (value - scale[0]) / scale[1])
    return out


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


def report(rows: int, part: str, ours: float, plain: float, ratios: dict[str, float]) -> None:
    ratios[f"{part}, {rows:,} rows: plain for ours"] = plain / ours
    print(f"| {rows:,} | {part} | {ours:.4f} | {plain:.4f} | {plain / ours:.1f} |", flush=True)


def measure_rows(rows: int, ratios: dict[str, float]) -> float:
    """Reports exact grouping and advantages. Returns our seconds for grouping and GiGPO together."""
    repeats = REPEATS if rows < 1_000_000 else REPEATS_OF_A_MILLION
    columns = make_rows(rows)
    observations, group_ids = columns.pop("observations"), columns["group_ids"]
    grouping, anchor_ids = best_seconds(
        anchor_state_ids, ((own_copies(observations), group_ids) for _ in range(repeats))
    )
    plain_grouping, plain_ids = best_seconds(
        plain_anchor_ids, ((own_copies(observations), group_ids) for _ in range(repeats))
    )
    assert anchor_ids.tolist() == plain_ids
    report(rows, "anchor_state_ids", grouping, plain_grouping, ratios)
    columns["anchor_ids"] = anchor_ids
    again = list(repeat((), repeats))
    options = {**columns, "gamma": GAMMA, "invalid_action_penalty": PENALTY}
    gigpo, advantages = best_seconds(partial(gigpo_advantages, **options), again)
    plain, total = best_seconds(partial(plain_gigpo, **columns), again)
    np.testing.assert_allclose(advantages.total, total, rtol=1e-5, atol=1e-5)
    report(rows, "gigpo_advantages", gigpo, plain, ratios)
    report(rows, "grouping and GiGPO", grouping + gigpo, plain_grouping + plain, ratios)
    gagpo, estimates = best_seconds(partial(gagpo_advantages, **options, lambda_=LAMBDA), again)
    plain, total = best_seconds(partial(plain_gagpo, **columns), again)
    np.testing.assert_allclose(estimates.total, total, rtol=1e-5, atol=1e-5)
    report(rows, "gagpo_advantages", gagpo, plain, ratios)
    return grouping + gigpo


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
        report(rows, f"similarity grouping, {similarity}", ours, plain, ratios)


def main(json_file: Annotated[Path | None, typer.Option("--json", dir_okay=False)] = None) -> None:
    """Prints a Markdown table; with --json, writes the ratios too."""
    ratios: dict[str, float] = {}
    print("| rows | part | ours, s | plain, s | plain for ours |\n|---|---|---|---|---|")
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
