"""Anchor states: ids for the states that steps of a rollout group share, and the group connector piece for them."""

from __future__ import annotations

import itertools
import logging
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import numpy as np
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from rllib_gigpo.columns import ANCHOR_STATE, GROUP_ID
from rllib_gigpo.connectors.credit_groups import credit_group_id
from rllib_gigpo.connectors.image_grouping import check_image_tolerance, merge_noisy_pictures
from rllib_gigpo.connectors.similarity_grouping import Similarity, check_similarity, merge_similar_states
from rllib_gigpo.connectors.state_keys import state_key

AnchorFunction = Callable[[Any, dict[str, Any]], Any]  # what it returns, `anchor_state_ids` must take
Anchor = str | AnchorFunction  # "auto", "observation", "anchor_state" or a function

ANCHOR_IDS = "anchor_ids"  # batch: int64[T], set by AnchorStateGrouping

logger = logging.getLogger(__name__)

_SIZE_BUCKETS = {"1": (1, 1), "2_4": (2, 4), "5_9": (5, 9), "10_49": (10, 49), "50_plus": (50, np.inf)}


def anchor_state_ids(
    observations: Iterable[Any],
    group_ids: Iterable[Hashable],
    *,
    similarity_threshold: float | None = None,
    similarity: Similarity = "indel",
    image_tolerance: float | None = None,
) -> np.ndarray:
    """Numbers the distinct (rollout group, state) pairs by first appearance.

    Args:
        observations: T states, each a str, an integer, an ndarray (not of objects), a StoredImage, or a mapping or
            sequence of these, like the observations of Dict and Tuple spaces. Arrays are equal when shape, dtype and
            bytes are, so 0.0 and −0.0 differ; the order of a mapping's keys does not matter; kinds of states never
            equal each other.
        group_ids: T group ids.
        similarity_threshold: In (0, 1]: texts of a group that are at least this similar count as one state. None: only
            equal ones.
        similarity: "indel" or "difflib", see `similarity_grouping`; without a threshold it changes nothing.
        image_tolerance: From 0 to 255: pictures (uint8[H, W, C]) of one shape count as one state where no block of
            8 × 8 pixels differs by more levels in its mean, see `image_grouping`. None: only equal ones.

    Returns:
        int64[T], equal for two rows exactly where the group is and the state is equal, or similar enough.

    Raises:
        TypeError: A state is something else, or with a threshold no str; the message names the row and its type.
        ValueError: Not one group id per state, or an option is wrong.
    """
    check_similarity(similarity_threshold, similarity)
    check_image_tolerance(image_tolerance)
    groups = group_ids if isinstance(group_ids, np.ndarray) else list(group_ids)
    states = observations if isinstance(observations, list) else list(observations)
    if len(states) != len(groups):
        raise ValueError(f"observations has {len(states)} rows, group_ids has {len(groups)}; both need the same length")
    if similarity_threshold is not None:
        states = [_text(state, row) for row, state in enumerate(states)]
    ids = _equal_state_ids(states, groups)
    if image_tolerance is not None:
        ids = merge_noisy_pictures(ids, states, list(groups), tolerance=image_tolerance)
    if similarity_threshold is None:
        return ids
    return merge_similar_states(ids, states, list(groups), threshold=similarity_threshold, similarity=similarity)


def _equal_state_ids(states: Sequence[Any], groups: Sequence[Hashable] | np.ndarray) -> np.ndarray:
    """int64[T], equal exactly where group and state are, numbered by first appearance."""
    next_id = itertools.count().__next__
    ids_of_group: defaultdict[Hashable, defaultdict[Hashable, int]] = defaultdict(lambda: defaultdict(next_id))
    ids = np.empty(len(states), np.int64)
    groups_of_runs, starts = _runs(groups)
    last_run = {group: run for run, group in enumerate(groups_of_runs)}
    for run, group in enumerate(groups_of_runs):
        rows = slice(starts[run], starts[run + 1])
        # A look-up gives an unseen state the next id. Mapped over a run of rows of one group, it is a loop in C.
        ids[rows] = list(map(ids_of_group[group].__getitem__, _keys(states[rows], rows.start)))
        # Thousands of new dictionaries would start the garbage collector, which looks at each of the states.
        if last_run[group] == run:
            del ids_of_group[group]
    return ids


def _keys(states: Sequence[Any], first_row: int) -> Sequence[Hashable]:
    """The states as keys of a dictionary; texts are their own."""
    if set(map(type, states)) <= {str}:
        return states
    return [state_key(state, row) for row, state in enumerate(states, first_row)]


def _runs(groups: Sequence[Hashable] | np.ndarray) -> tuple[list[Hashable], list[int]]:
    """The group of each run of rows of one group, and the first row of each, with T behind the last."""
    if isinstance(groups, np.ndarray):
        starts = np.flatnonzero(np.append(True, groups[1:] != groups[:-1])[: len(groups)])
        # As lists: a numpy scalar is several times slower to hash than an int.
        return groups[starts].tolist(), [*starts.tolist(), len(groups)]
    of_runs, starts_of_runs, end = [], [], 0
    for group, run in itertools.groupby(groups):
        of_runs.append(group)
        starts_of_runs.append(end)
        end += sum(1 for _ in run)
    return of_runs, [*starts_of_runs, end]


def _text(state: Any, row: int) -> str:
    """`state`, where it is a str. `row` is for the error message."""
    if isinstance(state, str):
        return str(state)
    raise TypeError(
        f"the anchor state of row {row} is a {type(state).__name__}; similarity compares texts only. Leave "
        "similarity_threshold at None, or pass `anchor=` a function (observation, info) that returns a str"
    )


def step_group_diagnostics(anchor_ids: np.ndarray) -> dict[str, float]:
    """What the step groups of `anchor_ids` (int64[T], T >= 1) look like.

    Returns:
        anchor_group_size_mean: mean number of rows per step group.
        anchor_singleton_share: share of rows that are alone in their step group, and so have no step advantage.
        anchor_rows_share_{1,2_4,5_9,10_49,50_plus}: share of rows whose step group has that many rows.
    """
    group_sizes = _step_group_sizes(anchor_ids)
    row_share = {
        f"anchor_rows_share_{name}": float(np.mean((group_sizes >= low) & (group_sizes <= high)))
        for name, (low, high) in _SIZE_BUCKETS.items()
    }
    return {
        "anchor_group_size_mean": len(anchor_ids) / len(np.unique(anchor_ids)),
        "anchor_singleton_share": row_share["anchor_rows_share_1"],
        **row_share,
    }


def later_states_repeat(anchor_ids: np.ndarray, lengths: np.ndarray) -> bool:
    """Whether any state but the first of a trajectory has a peer; if not, credit ends at the trajectory level.

    Args:
        anchor_ids: int64[T].
        lengths: int64[N], rows per trajectory, with sum T.
    """
    later = np.ones(len(anchor_ids), bool)
    later[np.cumsum(lengths) - lengths] = False
    return bool(np.any(_step_group_sizes(anchor_ids)[later] > 1))


def _step_group_sizes(anchor_ids: np.ndarray) -> np.ndarray:
    """int64[T]: how many rows share the anchor id of each row."""
    _, index, counts = np.unique(anchor_ids, return_inverse=True, return_counts=True)
    return counts[index]


class AnchorStateGrouping(ConnectorV2):
    """Sets batch["anchor_ids"] (int64[T]) over the steps of all episodes, in order.

    The anchor state of step t is what the environment showed *before* the action of step t, compared within the rollout
    group. A prompt would not do: its history and step counters make every state unique.

    Logs `step_group_diagnostics` under "rollout_groups", and warns once where no state but the first of a trajectory
    repeats.
    """

    def __init__(
        self,
        *,
        anchor: Anchor = "auto",
        similarity_threshold: float | None = None,
        similarity: Similarity = "indel",
        image_tolerance: float | None = None,
        **kwargs: Any,
    ):
        """
        Args:
            anchor: "observation"; "anchor_state", the environment's own `info["anchor_state"]`; "auto", that where a
                step's info has it, else the observation; or a function (observation, info) -> state.
            similarity_threshold, similarity, image_tolerance: As in `anchor_state_ids`.

        Raises:
            ValueError: An option is none of these.
        """
        super().__init__(**kwargs)
        if not callable(anchor) and anchor not in ("auto", "observation", "anchor_state"):
            raise ValueError(
                f'anchor is {anchor!r}; it must be "auto", "observation", "anchor_state" or a function '
                "(observation, info)"
            )
        check_similarity(similarity_threshold, similarity)
        check_image_tolerance(image_tolerance)
        self.anchor = anchor
        self.similarity_threshold = similarity_threshold
        self.similarity = similarity
        self.image_tolerance = image_tolerance
        self._warned = False

    def __call__(
        self,
        *,
        rl_module: Any,
        batch: dict[str, Any],
        episodes: Sequence[SingleAgentEpisode],
        explore: bool | None = None,
        shared_data: dict[str, Any] | None = None,
        metrics: Any = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """
        Args:
            batch: Gets "anchor_ids".
            episodes: Complete trajectories, not in numpy form; `infos[0]["group_id"]` names the rollout group.
            metrics: A MetricsLogger, or None.

        Raises:
            ValueError: An info lacks "group_id", or "anchor_state" where that is asked for.
            TypeError: An anchor state is of another kind than `anchor_state_ids` takes.
        """
        states = [self._anchor_state(episode, t) for episode in episodes for t in range(len(episode))]
        lengths = np.array([len(episode) for episode in episodes], np.int64)
        groups = np.repeat(np.array([credit_group_id(episode) for episode in episodes], np.int64), lengths)
        anchor_ids = anchor_state_ids(
            states,
            groups,
            similarity_threshold=self.similarity_threshold,
            similarity=self.similarity,
            image_tolerance=self.image_tolerance,
        )
        if metrics is not None and len(anchor_ids):
            for name, value in step_group_diagnostics(anchor_ids).items():
                metrics.log_value(("rollout_groups", name), value, window=1)
        if not self._warned and lengths.max(initial=0) > 1 and not later_states_repeat(anchor_ids, lengths):
            self._warned = True
            logger.warning(
                "No anchor state but the first of a trajectory repeats in this batch of %d steps, so step-level credit "
                "adds nothing. If that stays so, look at what the observation holds that changes every step, or give "
                "`anchor=` a function that leaves it out.",
                len(anchor_ids),
            )
        return batch | {ANCHOR_IDS: anchor_ids}

    def _anchor_state(self, episode: SingleAgentEpisode, t: int) -> Any:
        """The state before action t of `episode`."""
        observation, info = episode.get_observations(t), episode.get_infos(t)
        if callable(self.anchor):
            return self.anchor(observation, info)
        if self.anchor == "observation":
            return observation
        state = info.get(ANCHOR_STATE)
        if state is not None:
            return state
        if self.anchor == "auto":
            return observation
        group = episode.get_infos(0)[GROUP_ID]
        raise ValueError(
            f'info["{ANCHOR_STATE}"] is missing at step {t} of trajectory {episode.id_} (group {group}); '
            'have the environment give it at reset and at every step, or use anchor="auto" or "observation"'
        )
