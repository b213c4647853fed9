"""Similar texts as one anchor state: the published code's cases, plain loops, and what the order of rows changes."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from difflib import SequenceMatcher
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rllib_gigpo.algorithms.gigpo.advantages import gigpo_advantages
from rllib_gigpo.connectors.anchor_states import AnchorStateGrouping, anchor_state_ids

pytestmark = pytest.mark.unit

REFERENCE = json.loads((Path(__file__).parents[1] / "data" / "gigpo_reference_cases.json").read_text())
SIMILARITY_CASES = [case for case in REFERENCE["cases"] if case["similarity"]]


def first_appearance(names):
    numbers = {}
    return np.array([numbers.setdefault(name, len(numbers)) for name in names])


def difflib_loop(texts, groups, threshold):
    """Each text joins the first leader of its group that is similar enough."""
    leaders, ids = [], []
    for text, group in zip(texts, groups, strict=True):
        for index, (leader, its_group) in enumerate(leaders):
            if group == its_group and SequenceMatcher(None, text, leader).ratio() >= threshold:
                ids.append(index)
                break
        else:
            ids.append(len(leaders))
            leaders.append((text, group))
    return ids


def common_subsequence(a, b):
    row = [0] * (len(b) + 1)
    for x in a:
        previous = row
        row = [0]
        for j, y in enumerate(b):
            row.append(previous[j] + 1 if x == y else max(previous[j + 1], row[j]))
    return row[-1]


def indel_loop(texts, groups, threshold):
    """Most frequent text first, then alphabetically; each joins the most similar leader."""
    leader_of, leaders = {}, {}
    for (group, text), _ in sorted(Counter(zip(groups, texts, strict=True)).items(), key=lambda i: (-i[1], i[0][1])):
        best, best_similarity = None, 0.0
        for leader in leaders.setdefault(group, []):
            total = len(text) + len(leader)
            similarity = 2 * common_subsequence(text, leader) / total if total else 1.0
            if similarity >= threshold and similarity > best_similarity:
                best, best_similarity = leader, similarity
        if best is None:
            leaders[group].append(text)
        leader_of[group, text] = best or text
    return first_appearance([(group, leader_of[group, text]) for group, text in zip(groups, texts, strict=True)])


def random_texts(seed, rows):
    """Texts of 1–40 letters of which many are near copies of each other, and their groups."""
    rng = np.random.default_rng(seed)
    bases = ["".join(rng.choice(list("abcdé"), rng.integers(1, 40))) for _ in range(4)]
    texts = []
    for base in rng.choice(bases, rows):
        letters = list(base)
        for _ in range(rng.integers(0, 3)):
            letters[rng.integers(len(letters))] = rng.choice(list("abx"))
        texts.append("".join(letters))
    return texts, rng.integers(0, 2, rows).tolist()


def test_there_are_twelve_similarity_cases():
    assert len(SIMILARITY_CASES) == 12


@pytest.mark.parametrize("case", SIMILARITY_CASES, ids=lambda case: f"{case['name']}-{case['mode']}")
def test_difflib_reproduces_the_published_code(case):
    inputs, expected = case["inputs"], case["outputs"]
    group_ids = first_appearance(inputs["uid"])
    anchor_ids = anchor_state_ids(
        inputs["anchor_obs"],
        group_ids,
        similarity_threshold=REFERENCE["similarity_thresh"],
        similarity="difflib",
    )
    assert anchor_ids.tolist() == first_appearance(expected["step_group"]).tolist()
    advantages = gigpo_advantages(
        inputs["rewards"],
        first_appearance(inputs["traj_uid"]),
        group_ids,
        anchor_ids,
        gamma=REFERENCE["gamma"],
        step_advantage_weight=REFERENCE["omega"],
        norm={"mean_std_norm": "std", "mean_norm": "mean"}[case["mode"]],
        reference="verl-agent",
        invalid=inputs["invalid"],
        invalid_action_penalty=REFERENCE["invalid_action_penalty_coef"],
    )
    # The published code works in float32, hence the tolerance.
    np.testing.assert_allclose(advantages.step, expected["step_advantage"], rtol=0, atol=1e-4)
    np.testing.assert_allclose(advantages.total, expected["advantage"], rtol=0, atol=1e-4)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10_000), st.sampled_from([0.3, 0.5, 0.75, 0.9, 1.0]))
def test_the_plain_loops_give_the_same(seed, threshold):
    """The bounds rule out no pair that is similar enough."""
    texts, groups = random_texts(seed, 20)
    ours = anchor_state_ids(texts, groups, similarity_threshold=threshold, similarity="difflib")
    assert ours.tolist() == difflib_loop(texts, groups, threshold)
    ours = anchor_state_ids(texts, groups, similarity_threshold=threshold)
    assert ours.tolist() == indel_loop(texts, groups, threshold).tolist()


@settings(deadline=None, max_examples=8)
@given(st.integers(0, 10_000))
def test_the_plain_difflib_loop_gives_the_same_where_autojunk_is_at_work(seed):
    """From 200 characters on."""
    rng = np.random.default_rng(seed)
    base = rng.choice(list("ab #.$x"), 225)
    texts = []
    for _ in range(12):
        text = base.copy()
        text[rng.integers(0, 225, 3)] = rng.choice(list("ab#$@"), 3)
        texts.append("".join(text))
    ours = anchor_state_ids(texts, [0] * 12, similarity_threshold=0.95, similarity="difflib")
    assert ours.tolist() == difflib_loop(texts, [0] * 12, 0.95)


def test_boards_that_differ_in_two_cells_are_similar_to_indel_and_unlike_to_difflib():
    board = np.full((15, 16), ".")
    board[:, 15] = "\n"
    board[[0, -1], :15] = board[:, [0, 14]] = "#"
    moved = board.copy()
    board[2, 2] = moved[2, 3] = "@"
    texts = ["".join(board.flat), "".join(moved.flat)]
    assert anchor_state_ids(texts, [0, 0], similarity_threshold=0.95).tolist() == [0, 0]
    assert anchor_state_ids(texts, [0, 0], similarity_threshold=0.95, similarity="difflib").tolist() == [0, 1]


@pytest.mark.parametrize("similarity", ["indel", "difflib"])
def test_the_threshold_is_inclusive(similarity):
    """19 of 20 characters match, 38 of 40 together."""
    texts = ["a" * 19 + "b", "a" * 19 + "c"]
    assert anchor_state_ids(texts, [0, 0], similarity_threshold=0.95, similarity=similarity).tolist() == [0, 0]
    above = np.nextafter(0.95, 1)
    assert anchor_state_ids(texts, [0, 0], similarity_threshold=above, similarity=similarity).tolist() == [0, 1]


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10_000), st.sampled_from([0.5, 0.75, 0.9]))
def test_the_order_of_rows_does_not_change_indels_groups(seed, threshold):
    texts, groups = random_texts(seed, 30)
    order = np.random.default_rng(seed + 1).permutation(30)
    straight = anchor_state_ids(texts, groups, similarity_threshold=threshold)
    shuffled = anchor_state_ids([texts[i] for i in order], [groups[i] for i in order], similarity_threshold=threshold)
    assert first_appearance(straight[order].tolist()).tolist() == shuffled.tolist()


def test_a_text_joins_its_most_similar_leader_and_the_frequent_ones_lead():
    texts = ["aaaaaaaaab", "aaaaaaaaaa", "aaaaaaaaaa", "bbbbbbbbbb", "bbbbbbbbbb", "aaaabbbbbb"]
    assert anchor_state_ids(texts, [0] * 6, similarity_threshold=0.4).tolist() == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize("similarity", ["indel", "difflib"])
def test_groups_never_share_a_state(similarity):
    texts, groups = random_texts(1, 60)
    ids = anchor_state_ids(texts, groups, similarity_threshold=0.3, similarity=similarity)
    of_group = [{i for i, its_group in zip(ids.tolist(), groups, strict=True) if its_group == g} for g in (0, 1)]
    assert not of_group[0] & of_group[1]


@pytest.mark.parametrize("similarity", ["indel", "difflib"])
@pytest.mark.parametrize("text", ["", "a", "\ud800", "𝔸漢字\x00"])
def test_odd_texts(similarity, text):
    ids = anchor_state_ids([text, text, "something else"], [0, 0, 0], similarity_threshold=0.9, similarity=similarity)
    assert ids.tolist() == [0, 0, 1]


@pytest.mark.parametrize("similarity", ["indel", "difflib"])
def test_a_threshold_of_one_merges_equal_texts_only(similarity):
    texts, groups = random_texts(3, 60)
    ids = anchor_state_ids(texts, groups, similarity_threshold=1.0, similarity=similarity)
    assert ids.tolist() == anchor_state_ids(texts, groups).tolist()


def test_no_rows():
    assert anchor_state_ids([], [], similarity_threshold=0.9).tolist() == []


@pytest.mark.parametrize("threshold", [0, -0.5, 1.01, float("nan")])
def test_a_threshold_out_of_range_is_named(threshold):
    with pytest.raises(ValueError, match=f"similarity_threshold is {threshold}"):
        anchor_state_ids(["a"], [0], similarity_threshold=threshold)
    with pytest.raises(ValueError, match=f"similarity_threshold is {threshold}"):
        AnchorStateGrouping(similarity_threshold=threshold)


def test_an_unknown_similarity_is_named():
    with pytest.raises(ValueError, match="similarity is 'cosine'"):
        anchor_state_ids(["a"], [0], similarity="cosine")


def test_arrays_are_refused_with_their_row():
    with pytest.raises(TypeError, match="row 1 is a ndarray; similarity compares texts only"):
        anchor_state_ids(["a", np.zeros(3)], [0, 0], similarity_threshold=0.9)


def test_the_piece_takes_the_options_and_keeps_them_in_checkpoints():
    piece = AnchorStateGrouping(similarity_threshold=0.9, similarity="difflib")
    args, kwargs = piece.get_ctor_args_and_kwargs()
    again = AnchorStateGrouping(*args, **pickle.loads(pickle.dumps(kwargs)))
    assert (again.similarity_threshold, again.similarity) == (0.9, "difflib")
