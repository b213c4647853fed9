"""Cost of GiGPO's credit assignment, side by side with plain per-row Python of the same formulas.

    python benchmarks/credit_assignment.py [ROWS ...]

Prints seconds (best of five) and the ratio of the plain version to ours, and checks that both agree. The rows look like
ALFWorld's: rollout groups of 8 trajectories of up to 50 steps, observations of 300 characters, 10 % invalid actions.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np

from rllib_gigpo.algorithms.gigpo.advantages import gigpo_advantages
from rllib_gigpo.connectors.anchor_states import anchor_state_ids

MEMBERS, LONGEST, STATES, GAMMA, PENALTY = 8, 50, 120, 0.95, 0.1
REPEATS = 5


def make_rows(rows: int) -> dict[str, Any]:
    """Columns of `rows` step rows; every observation is a string object of its own, as environments make them."""
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
        "observations": [f"room {state}: {padding}"[:300] for state in rng.integers(0, STATES, rows)],
    }


def plain_anchor_ids(observations: list[str], group_ids: np.ndarray) -> list[int]:
    seen: dict[tuple[int, str], int] = {}
    ids = []
    for i in range(len(observations)):
        key = (group_ids[i], observations[i])
        if key not in seen:
            seen[key] = len(seen)
        ids.append(seen[key])
    return ids


def plain_advantages(
    rewards: np.ndarray, trajectory_ids: np.ndarray, group_ids: np.ndarray, anchor_ids: Any, invalid: np.ndarray
) -> list[float]:
    penalised = [float(r) - PENALTY * float(bad) for r, bad in zip(rewards, invalid, strict=True)]
    returns = [0.0] * len(penalised)
    totals: dict[int, float] = defaultdict(float)
    group_of: dict[int, int] = {}
    for i in range(len(penalised) - 1, -1, -1):
        follows = i + 1 < len(penalised) and trajectory_ids[i + 1] == trajectory_ids[i]
        returns[i] = penalised[i] + (GAMMA * returns[i + 1] if follows else 0.0)
        totals[trajectory_ids[i]] += penalised[i]
        group_of[trajectory_ids[i]] = group_ids[i]
    episode = dict(zip(totals, plain_normalize(list(totals.values()), [group_of[t] for t in totals]), strict=True))
    step = plain_normalize(returns, list(zip(group_ids, anchor_ids, strict=True)))
    return [episode[trajectory_ids[i]] + step[i] for i in range(len(returns))]


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


def best_seconds(function: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[float, Any]:
    seconds = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        result = function(*args, **kwargs)
        seconds.append(time.perf_counter() - start)
    return min(seconds), result


def main(sizes: list[int]) -> None:
    print(f"{'rows':>8}  {'part':<18}{'ours s':>10}{'plain s':>10}{'ratio':>8}")
    for rows in sizes:
        columns = make_rows(rows)
        observations, group_ids = columns.pop("observations"), columns["group_ids"]
        grouping, anchor_ids = best_seconds(anchor_state_ids, observations, group_ids)
        plain_grouping, plain_ids = best_seconds(plain_anchor_ids, observations, group_ids)
        assert anchor_ids.tolist() == plain_ids
        columns["anchor_ids"] = anchor_ids
        credit, advantages = best_seconds(gigpo_advantages, **columns, gamma=GAMMA, invalid_action_penalty=PENALTY)
        plain_credit, plain_total = best_seconds(plain_advantages, **columns)
        np.testing.assert_allclose(advantages.total, plain_total, rtol=1e-5, atol=1e-5)
        for part, ours, plain in (
            ("anchor_state_ids", grouping, plain_grouping),
            ("gigpo_advantages", credit, plain_credit),
            ("both", grouping + credit, plain_grouping + plain_credit),
        ):
            print(f"{rows:>8}  {part:<18}{ours:>10.4f}{plain:>10.4f}{plain / ours:>8.1f}")


if __name__ == "__main__":
    main([int(argument) for argument in sys.argv[1:]] or [6_400, 102_400])
