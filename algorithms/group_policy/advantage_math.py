"""Building blocks of credit assignment over flat step rows: checked columns, returns, statistics within keys.

Everything is float64 inside and vectorised over rows; only `as_float32` narrows. T is the number of step rows, N that
of trajectories, G that of rollout groups.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

Float32s = NDArray[np.float32]
Float64s = NDArray[np.float64]
Int64s = NDArray[np.int64]

Norm = Literal["std", "mean"]
Reference = Literal["paper", "verl-agent"]

STD_EPSILON = 1e-6  # added to every standard deviation
SPREAD_TOLERANCE = 1e-6  # relative: values no further apart than this are equal

_FLOAT32_MAX = float(np.finfo(np.float32).max)


class StepTable(NamedTuple):
    """Checked columns of T step rows, with dense indices in place of ids. Made by `step_table`."""

    rewards: Float64s  # [T], without the invalid-action penalty
    invalid: NDArray[np.bool_]  # [T]
    trajectory: Int64s  # [T], 0..N-1, non-decreasing
    group: Int64s  # [T], 0..G-1
    lengths: Int64s  # [N], rows per trajectory
    trajectory_group: Int64s  # [N], 0..G-1


def step_table(
    rewards: ArrayLike, trajectory_ids: ArrayLike, group_ids: ArrayLike, invalid: ArrayLike | None = None
) -> StepTable:
    """Checks the columns of T step rows.

    Args:
        rewards: float[T], finite as float32.
        trajectory_ids: int or str[T]; the rows of a trajectory are contiguous and in time order.
        group_ids: int or str[T], the rollout group of each row, one per trajectory.
        invalid: bool[T], True where the action was invalid; None for none.

    Raises:
        ValueError: A column has another length or type, a reward is not finite, the rows of a trajectory are apart, or
            a trajectory is in two groups. The message names the column and the first offending row.
    """
    reward = finite_column("rewards", rewards, kinds="fiub")
    rows = len(reward)
    trajectory_id = column("trajectory_ids", trajectory_ids, kinds="iuU", rows=rows)
    group_id = column("group_ids", group_ids, kinds="iuU", rows=rows)
    invalid_row = np.zeros(rows, bool) if invalid is None else column("invalid", invalid, kinds="b", rows=rows)

    first = np.ones(rows, bool)
    first[1:] = trajectory_id[1:] != trajectory_id[:-1]
    starts = np.flatnonzero(first)
    _check_contiguous(trajectory_id, starts)
    trajectory = np.cumsum(first) - 1
    if len(bad := np.flatnonzero(group_id != group_id[starts][trajectory])):
        row = bad[0]
        raise ValueError(
            f"group_ids[{row}] is {group_id[row]}, but trajectory {trajectory_id[row]} began in group "
            f"{group_id[starts[trajectory[row]]]}; a trajectory has one group, and its id is unique over all groups"
        )
    trajectory_group = dense_index(group_id[starts])
    return StepTable(
        rewards=reward,
        invalid=invalid_row,
        trajectory=trajectory,
        group=trajectory_group[trajectory],
        lengths=np.diff(np.append(starts, rows)),
        trajectory_group=trajectory_group,
    )


def column(name: str, values: ArrayLike, *, kinds: str, rows: int | None = None) -> NDArray[Any]:
    """`values` as an array of one dimension. Raises ValueError where its shape or numpy kind is wrong."""
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"{name} has shape {array.shape}; it must have one dimension, one value per step row")
    if rows is not None and len(array) != rows:
        raise ValueError(f"{name} has {len(array)} rows, rewards has {rows}; all columns need the same length")
    # An empty list arrives as float64, whatever it would have held.
    if array.dtype.kind not in kinds and len(array):
        raise ValueError(f"{name} has dtype {array.dtype}; it must be one of the numpy kinds {'/'.join(kinds)}")
    return array


def finite_column(name: str, values: ArrayLike, *, kinds: str, rows: int | None = None) -> Float64s:
    """As `column`, in float64. Raises ValueError where a value is not finite as float32, too."""
    array = column(name, values, kinds=kinds, rows=rows).astype(np.float64)
    # NaN compares False, so this finds it as well.
    if len(bad := np.flatnonzero(~(np.abs(array) <= _FLOAT32_MAX))):
        raise ValueError(f"{name}[{bad[0]}] is {array[bad[0]]}; {name} must be finite as float32")
    return array


def _check_contiguous(trajectory_id: NDArray[Any], starts: Int64s) -> None:
    """Raises ValueError where an id of `trajectory_id` ([T]) has two runs of rows; `starts`: int64[runs]."""
    order = np.argsort(trajectory_id[starts], kind="stable")
    ids = trajectory_id[starts][order]
    if len(again := np.flatnonzero(ids[1:] == ids[:-1])):
        row = starts[order[again + 1]].min()
        raise ValueError(
            f"trajectory_ids[{row}] is {trajectory_id[row]}, which had ended before; "
            "the rows of a trajectory must be contiguous and in time order"
        )


def check_options(*, norm: str, reference: str, invalid_action_penalty: float, std_floor: float) -> None:
    """Raises ValueError, naming the option, where a value is out of its range."""
    if norm not in get_args(Norm):
        raise ValueError(f"norm is {norm!r}; it must be one of {get_args(Norm)}")
    if reference not in get_args(Reference):
        raise ValueError(f"reference is {reference!r}; it must be one of {get_args(Reference)}")
    check_not_negative(invalid_action_penalty=invalid_action_penalty, std_floor=std_floor)


def check_not_negative(**options: float) -> None:
    """Raises ValueError, naming the option, where a value is negative or not finite as float32."""
    for name, value in options.items():
        if not 0 <= value <= _FLOAT32_MAX:
            raise ValueError(f"{name} is {value}; it must be finite as float32, and at least 0")


def check_finite(**options: float) -> None:
    """Raises ValueError, naming the option, where a value is not finite as float32."""
    for name, value in options.items():
        if not abs(value) <= _FLOAT32_MAX:
            raise ValueError(f"{name} is {value}; it must be finite as float32")


def check_unit_interval(**options: float) -> None:
    """Raises ValueError, naming the option, where a value is outside [0, 1]."""
    for name, value in options.items():
        if not 0 <= value <= 1:
            raise ValueError(f"{name} is {value}; it must be in [0, 1]")


def dense_index(ids: NDArray[Any]) -> Int64s:
    """The rank of each id among the distinct ones, int64[T] in 0..K-1."""
    if ids.dtype.kind == "i" and len(ids) and ids.min() >= 0 and ids.max() <= 4 * len(ids):
        # Ids that are nearly dense already, as they mostly are: to count them is far cheaper than to sort them.
        present = np.bincount(ids) > 0
        return (np.cumsum(present) - 1)[ids]
    return np.unique(ids, return_inverse=True)[1].astype(np.int64, copy=False)


def pair_index(first: Int64s, second: Int64s) -> Int64s:
    """int64[T], equal exactly where both columns (dense indices, int64[T]) are equal, in 0..K-1."""
    # Where no value of `second` goes with two of `first`, as no anchor state does with two groups, it is the answer.
    first_of_second = np.zeros(second.max(initial=-1) + 1, np.int64)
    first_of_second[second] = first
    if np.array_equal(first_of_second[second], first):
        return second
    return dense_index(first * (second.max(initial=0) + 1) + second)


def sum_within(values: Float64s, keys: Int64s, num_keys: int) -> Float64s:
    """The sum of `values` (float64[T]) per key (int64[T], 0..K-1): float64[K]."""
    return np.bincount(keys, weights=values, minlength=num_keys).astype(np.float64, copy=False)


def discounted_sums(values: Float64s, lengths: Int64s, factor: float) -> Float64s:
    """Σ_{k>=t} factor^(k−t)·values_k within each trajectory: float64[T].

    Args:
        values: float64[T], the rows of trajectory 0, then those of trajectory 1, ...
        lengths: int64[N], rows per trajectory, with sum T.
        factor: in [0, 1].

    Doubling: after pass p a row holds the sum over its next 2^p rows, so log2(longest trajectory) passes do. A
    cumulative sum over values·factor^t would need factor^−t, which overflows on long trajectories; factor^(2^p) may
    only underflow, to a term that is truly negligible.
    """
    sums = values.astype(np.float64)
    ends = np.repeat(np.cumsum(lengths), lengths)
    rows_left = ends - np.arange(len(sums))
    longest = lengths.max(initial=0)
    reach, weight = 1, float(factor)
    # Memory of a million rows is dear where it is new: each pass uses the same.
    weighted, goes_on = np.empty_like(sums), np.empty(len(sums), bool)
    while weight > 0 and reach < longest:
        # By slices: a million rows are read in order, where indices would jump about in memory.
        here, later = slice(None, -reach), slice(reach, None)
        np.multiply(sums[later], weight, out=weighted[here])
        np.greater(rows_left[here], reach, out=goes_on[here])
        np.add(sums[here], weighted[here], out=sums[here], where=goes_on[here])
        reach, weight = 2 * reach, weight * weight
    return sums


class KeyStatistics(NamedTuple):
    """Statistics of the K keys of a column. Made by `statistics_within`."""

    members: Int64s  # [K], how many
    mean: Float64s  # [K]
    std: Float64s  # [K], with Bessel's correction; 0 for a lone member
    constant: NDArray[np.bool_]  # [K], True where all members are equal up to SPREAD_TOLERANCE, relative to the largest
    centred: Float64s  # [T], the values less their key's mean


def statistics_within(values: Float64s, keys: Int64s) -> KeyStatistics:
    """Statistics of `values` (float64[T]) per key (int64[T], 0..K-1, each present).

    The variance takes two passes: the one-pass form loses all digits where the mean is large against the spread.
    """
    members = np.bincount(keys)
    num_keys = len(members)
    mean = sum_within(values, keys, num_keys) / members
    centred = mean[keys]
    np.subtract(values, centred, out=centred)
    variance = sum_within(centred * centred, keys, num_keys) / np.maximum(members - 1, 1)
    lowest, highest = np.full(num_keys, np.inf), np.full(num_keys, -np.inf)
    np.minimum.at(lowest, keys, values)
    np.maximum.at(highest, keys, values)
    largest = np.maximum(np.abs(lowest), np.abs(highest))
    constant = highest - lowest <= SPREAD_TOLERANCE * largest
    return KeyStatistics(members, mean, np.sqrt(variance), constant, centred)


def normalize_within(values: Float64s, keys: Int64s, *, norm: Norm, std_floor: float = 0.0) -> Float64s:
    """(x − mean) / F over the members of each key: float64[T].

    Args:
        values: float64[T].
        keys: int64[T], 0..K-1, each present.
        norm: "std": F = max(std, std_floor) + 1e-6, std with Bessel's correction. "mean": F = 1.
        std_floor: In units of `values`; keeps a small spread from becoming unit-sized advantages.

    Returns:
        Exactly 0 for a lone member and for all members of a key whose values are equal up to rounding (spread at most
        1e-6 of the largest): a mean that is one rounding off, divided by a std of nearly 0, would be a large advantage
        made of nothing.
    """
    statistics = statistics_within(values, keys)
    scale = np.maximum(statistics.std, std_floor) + STD_EPSILON if norm == "std" else np.ones_like(statistics.std)
    scale[statistics.constant] = np.inf
    normalized = scale[keys]
    return np.divide(statistics.centred, normalized, out=normalized)


def step_returns(table: StepTable, *, gamma: float, invalid_action_penalty: float, reference: Reference) -> Float64s:
    """Discounted return of each step row, penalty applied: float64[T].

    "paper": the penalty is part of the reward of the invalid step, so earlier steps see it discounted.
    "verl-agent": it is subtracted after discounting, from the return of the invalid row alone.

    Raises:
        ValueError: `gamma` is outside [0, 1].
    """
    check_unit_interval(gamma=gamma)
    penalty = invalid_action_penalty * table.invalid
    if reference == "paper":
        return discounted_sums(table.rewards - penalty, table.lengths, gamma)
    return discounted_sums(table.rewards, table.lengths, gamma) - penalty


def trajectory_scores(table: StepTable, *, invalid_action_penalty: float) -> Float64s:
    """Summed rewards of each trajectory, the penalty of its invalid steps applied: float64[N]."""
    return sum_within(table.rewards - invalid_action_penalty * table.invalid, table.trajectory, len(table.lengths))


def episode_advantages(
    table: StepTable, *, norm: Norm, reference: Reference, invalid_action_penalty: float, std_floor: float
) -> Float64s:
    """Group-relative advantage of each row's trajectory: float64[T].

    "paper" (GRPO; GiGPO's A^E): statistics over the trajectories of a rollout group, of their summed rewards with the
    penalty inside. The same for all rows of a trajectory.
    "verl-agent" (GiGPO's published code): statistics over all *rows* of the group, where a row's score is its
    trajectory's summed rewards, less the penalty if this row is invalid. A group of one row keeps its raw score.
    """
    if reference == "paper":
        scores = trajectory_scores(table, invalid_action_penalty=invalid_action_penalty)
        return normalize_within(scores, table.trajectory_group, norm=norm, std_floor=std_floor)[table.trajectory]
    sums = sum_within(table.rewards, table.trajectory, len(table.lengths))
    scores = sums[table.trajectory] - invalid_action_penalty * table.invalid
    lone_row = np.bincount(table.group)[table.group] == 1
    return np.where(lone_row, scores, normalize_within(scores, table.group, norm=norm, std_floor=std_floor))


def as_float32(values: Float64s) -> Float32s:
    """`values` (any shape) in float32; what float32 cannot hold becomes its largest number, not infinity."""
    return np.clip(values, -_FLOAT32_MAX, _FLOAT32_MAX, out=np.empty(values.shape, np.float32))
