"""Credit assignment row by row in plain Python, with a dictionary for the anchor states: the published formulas."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable
from difflib import SequenceMatcher
from typing import Any

import numpy as np

GAMMA, LAMBDA, PENALTY, THRESHOLD = 0.95, 0.95, 0.1, 0.95


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
