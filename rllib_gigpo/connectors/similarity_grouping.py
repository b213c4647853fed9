"""Lets texts that are nearly the same count as one anchor state.

How similar two texts are is 2·M / T: M matched characters of the T that both have together, 1 for equal texts.

"indel": M is the length of the longest common subsequence. Within a rollout group, the distinct texts are taken by
    falling number of rows, then alphabetically. Each joins the most similar leader that reaches the threshold, or
    becomes a leader itself. The groups do not depend on the order of the rows, and every text is that similar to its
    leader; two that share a leader may be less similar to each other.
"difflib": M is what `difflib.SequenceMatcher(None, text, leader)` matches, with its "autojunk": in leaders of 200
    characters or more, those that make up over 1 % cannot begin a match, so that nearly equal boards or tables can be
    utterly unlike. Each text, by first row, joins the first leader that reaches the threshold. This is how the
    published GiGPO code groups.

Either way M is at most the length of the longest common subsequence, and that at most the number of characters in
common, so both rule pairs out exactly.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from difflib import SequenceMatcher
from typing import Literal, get_args

import numpy as np
from rapidfuzz.distance import LCSseq
from rapidfuzz.process import cdist

Similarity = Literal["indel", "difflib"]

_BUCKETS = 128  # of characters, by code point: ASCII has one each


def check_similarity(threshold: float | None, similarity: str) -> None:
    """Raises ValueError where `threshold` is neither None nor in (0, 1], or `similarity` is unknown."""
    if threshold is not None and not 0 < threshold <= 1:
        raise ValueError(f"similarity_threshold is {threshold}; it must be greater than 0 and at most 1, or None")
    if similarity not in get_args(Similarity):
        raise ValueError(f"similarity is {similarity!r}; it must be one of {get_args(Similarity)}")


def merge_similar_states(
    ids: np.ndarray,
    texts: Sequence[str],
    groups: Sequence[Hashable],
    *,
    threshold: float,
    similarity: Similarity,
) -> np.ndarray:
    """One id for all similar states of a rollout group, numbered by first appearance.

    Args:
        ids: int64[T], equal exactly where group and text are, numbered 0..K-1 by first appearance.
        texts: T states.
        groups: T rollout groups.
        threshold: In (0, 1]; texts exactly that similar are merged.
        similarity: See above.

    Returns:
        int64[T].
    """
    _, first_rows, rows_of_id = np.unique(ids, return_index=True, return_counts=True)
    ids_of_group: dict[Hashable, list[int]] = {}
    for state, row in enumerate(first_rows.tolist()):
        ids_of_group.setdefault(groups[row], []).append(state)

    merged = np.arange(len(first_rows))
    for states in ids_of_group.values():
        distinct = _DistinctTexts([texts[first_rows[state]] for state in states], threshold)
        if similarity == "indel":
            leaders = _leaders_by_indel(distinct, rows_of_id[states].tolist())
        else:
            leaders = _leaders_by_difflib(distinct)
        # The earliest member's id stands for all, so that the order of first appearances is kept.
        earliest: dict[int, int] = {}
        for state, leader in zip(states, leaders, strict=True):
            merged[state] = earliest.setdefault(leader, state)
    return np.unique(merged[ids], return_inverse=True)[1].astype(np.int64, copy=False)


class _DistinctTexts:
    """The K distinct texts of a rollout group, in order of first appearance."""

    def __init__(self, texts: list[str], threshold: float):
        self.texts = texts
        self.threshold = threshold
        self._lengths = np.array([len(text) for text in texts])  # int64[K]
        counts = np.stack([_character_counts(text) for text in texts])
        self._counts = counts[:, counts.min(0) < counts.max(0)]  # int32[K, at most _BUCKETS]: those that tell

    def similar(self, index: int, others: list[int]) -> tuple[list[int], np.ndarray]:
        """The `others` whose indel similarity to text `index` reaches the threshold, in order, and it: float64."""
        candidates = np.array(others, np.int64)
        total = self._lengths[candidates] + self._lengths[index]
        apart = np.abs(self._counts[candidates] - self._counts[index]).sum(1)
        possible = (total - apart) / total >= self.threshold
        candidates, total = candidates[possible], total[possible]
        if not len(candidates):
            return [], np.zeros(0)
        # Counts of characters: with a similarity as its cutoff, rapidfuzz 3.14 drops pairs that reach it.
        matched = cdist(
            [self.texts[index]],
            [self.texts[candidate] for candidate in candidates.tolist()],
            scorer=LCSseq.similarity,
            score_cutoff=max(int(self.threshold * total.min() / 2) - 1, 0),
            dtype=np.int64,
        )[0]
        similarities = 2.0 * matched / total
        reached = similarities >= self.threshold
        return candidates[reached].tolist(), similarities[reached]


def _character_counts(text: str) -> np.ndarray:
    """int32[_BUCKETS]: how many characters fall into each bucket; two texts have at least as many per bucket in common
    as they have per character."""
    code_points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    return np.bincount(code_points % _BUCKETS, minlength=_BUCKETS).astype(np.int32)


def _leaders_by_indel(distinct: _DistinctTexts, counts: Sequence[int]) -> list[int]:
    """The index of each text's leader: K; `counts` (K) says how many rows show the text."""
    texts = distinct.texts
    leader_of = list(range(len(texts)))
    leaders: list[int] = []
    for index in sorted(range(len(texts)), key=lambda i: (-counts[i], texts[i])):
        found, similarities = distinct.similar(index, leaders)
        if found:
            leader_of[index] = found[int(similarities.argmax())]
        else:
            leaders.append(index)
    return leader_of


def _leaders_by_difflib(distinct: _DistinctTexts) -> list[int]:
    """The index of each text's leader: K."""
    texts = distinct.texts
    leader_of = list(range(len(texts)))
    matchers: dict[int, SequenceMatcher[str]] = {}  # by leader; each holds an index of its second text, the leader
    for index, text in enumerate(texts):
        for leader in distinct.similar(index, list(matchers))[0]:
            matchers[leader].set_seq1(text)
            if matchers[leader].ratio() >= distinct.threshold:
                leader_of[index] = leader
                break
        else:
            matchers[index] = SequenceMatcher(None, "", text)
    return leader_of
