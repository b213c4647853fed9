"""Anchor ids, what they say about a batch, and the connector piece over real RLlib episodes."""

from __future__ import annotations

import logging
import pickle
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger

from rllib_gigpo.connectors.anchor_states import (
    AnchorStateGrouping,
    anchor_state_ids,
    later_states_repeat,
    step_group_diagnostics,
)

pytestmark = pytest.mark.unit


def episode(group, observations, infos=None):
    """A complete trajectory that shows `observations`; its last one is never acted on."""
    infos = infos or [{} for _ in observations]
    trajectory = SingleAgentEpisode()
    trajectory.add_env_reset(observations[0], {**infos[0], "group_id": group})
    for t, observation in enumerate(observations[1:], start=1):
        last = t == len(observations) - 1
        trajectory.add_env_step(observation, "act", 0.0, infos[t], terminated=last)
    return trajectory


def grouped(episodes, metrics=None, **options):
    piece = AnchorStateGrouping(**options)
    return piece(rl_module=None, batch={"kept": 1}, episodes=episodes, metrics=metrics)


def test_ids_are_numbered_by_first_appearance_within_a_group():
    ids = anchor_state_ids(["b", "a", "b", "b", "a"], [4, 4, 4, 9, 4])
    assert ids.dtype == np.int64
    assert ids.tolist() == [0, 1, 0, 2, 1]


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.sampled_from(["", "a", "b", "A", "a "]), st.integers(0, 2)), max_size=30))
def test_ids_are_equal_exactly_where_group_and_text_are(rows):
    ids = anchor_state_ids([text for text, _ in rows], [group for _, group in rows])
    for i, row in enumerate(rows):
        for j, other in enumerate(rows):
            assert (ids[i] == ids[j]) == (row == other)


def test_arrays_are_keyed_by_shape_dtype_and_content():
    base = np.arange(6, dtype=np.int32)
    states = [
        base.reshape(2, 3),
        base.reshape(2, 3).copy(),
        np.asfortranarray(base.reshape(2, 3)),  # the same numbers in another memory order
        base.reshape(3, 2),
        base.astype(np.int64).reshape(2, 3),
        base.reshape(2, 3) + 1,
        base,
    ]
    assert anchor_state_ids(states, [0] * len(states)).tolist() == [0, 0, 0, 1, 2, 3, 4]


def test_odd_arrays_have_keys_too():
    states = [np.array(3), np.array(3), np.zeros((0, 3)), np.zeros((3, 0)), np.ones((4, 4))[::2, ::2], np.ones((2, 2))]
    assert anchor_state_ids(states, np.zeros(6, int)).tolist() == [0, 0, 1, 2, 3, 3]


def test_a_batch_of_images_is_one_state_per_row():
    images = np.random.default_rng(0).integers(0, 256, (4, 8, 8, 3), dtype=np.uint8)
    images[3] = images[1]
    assert anchor_state_ids(images, np.zeros(4, int)).tolist() == [0, 1, 2, 1]


def test_text_never_equals_an_array_and_numpy_text_is_text():
    assert anchor_state_ids(["x", np.array("x"), np.str_("x")], [0, 0, 0]).tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("state", "described"),
    [
        (3.5, "float"),
        ({"text": "a", "seen": [1, None]}, "NoneType"),
        (None, "NoneType"),
        (b"a", "bytes"),
        (np.array([None]), "ndarray of object"),
    ],
)
def test_another_type_is_named_with_its_row(state, described):
    with pytest.raises(TypeError, match=f"row 1 is or holds a {described}"):
        anchor_state_ids(["a", state], [0, 0])


def test_lengths_that_differ_are_named():
    with pytest.raises(ValueError, match="observations has 2 rows, group_ids has 1"):
        anchor_state_ids(["a", "b"], [0])


def test_no_rows():
    assert anchor_state_ids([], []).tolist() == []
    assert anchor_state_ids([], np.zeros(0, np.int64)).tolist() == []


def test_a_hundred_thousand_texts_take_well_under_half_a_second():
    """A few hundredths of a second of processor time; the bound is loose because other processes share the caches."""
    texts = [f"{'you see a shelf and a desk. ' * 10}{i % 5000}" for i in range(100_000)]
    groups = np.arange(100_000) // 400
    start = time.process_time()
    anchor_state_ids(texts, groups)
    assert time.process_time() - start < 0.5


def test_diagnostics_by_hand():
    ids = np.repeat(np.arange(6), [1, 1, 4, 7, 12, 75])  # 100 rows in 6 step groups
    assert step_group_diagnostics(ids) == pytest.approx(
        {
            "anchor_group_size_mean": 100 / 6,
            "anchor_singleton_share": 0.02,
            "anchor_rows_share_1": 0.02,
            "anchor_rows_share_2_4": 0.04,
            "anchor_rows_share_5_9": 0.07,
            "anchor_rows_share_10_49": 0.12,
            "anchor_rows_share_50_plus": 0.75,
        }
    )


def test_later_states_repeat():
    assert later_states_repeat(np.array([0, 1, 0, 1]), np.array([2, 2]))
    assert not later_states_repeat(np.array([0, 1, 0, 2]), np.array([2, 2]))
    assert later_states_repeat(np.array([0, 0]), np.array([2]))  # back at the start


def test_the_piece_reads_the_state_before_each_action():
    """The last observation (z, y) was never acted on; both groups show "a"."""
    episodes = [episode(0, ["a", "b", "z"]), episode(0, ["a", "c", "b", "y"]), episode(1, ["a", "z"])]
    batch = grouped(episodes)
    assert batch["anchor_ids"].tolist() == [0, 1, 0, 2, 1, 3]
    assert batch["anchor_ids"].dtype == np.int64
    assert batch["kept"] == 1


def test_auto_takes_the_environments_anchor_state_where_there_is_one():
    with_state = episode(0, ["step 1", "step 2", "end"], [{"anchor_state": "s"}, {"anchor_state": "s"}, {}])
    half = episode(0, ["step 1", "step 2", "end"], [{}, {"anchor_state": "s"}, {}])
    assert grouped([with_state, half])["anchor_ids"].tolist() == [0, 0, 1, 0]
    assert grouped([with_state, half], anchor="observation")["anchor_ids"].tolist() == [0, 1, 0, 1]


def test_a_missing_anchor_state_is_named_with_its_step():
    half = episode(7, ["step 1", "step 2", "end"], [{"anchor_state": "s"}, {}, {}])
    with pytest.raises(
        ValueError, match=rf"missing at step 1 of trajectory {half.id_} \(group 7\); have the environment"
    ):
        grouped([half], anchor="anchor_state")
    whole = episode(7, ["step 1", "end"], [{"anchor_state": "s"}, {}])
    assert grouped([whole], anchor="anchor_state")["anchor_ids"].tolist() == [0]


def test_a_users_function_sees_observation_and_info():
    episodes = [episode(0, ["1: room", "2: room", "3: room"], [{"floor": 1}, {"floor": 1}, {"floor": 1}])]
    ids = grouped(episodes, anchor=lambda observation, info: f"{observation[3:]} {info['floor']}")["anchor_ids"]
    assert ids.tolist() == [0, 0]


def test_structured_states_are_compared_part_by_part():
    picture, other = np.zeros((2, 2), np.uint8), np.ones((2, 2), np.uint8)
    states = [
        {"text": "a", "image": picture},
        {"image": picture.copy(), "text": "a"},
        {"text": "a", "image": other},
        {"text": "b", "image": picture},
        ("a", picture),
        ["a", picture],
        ("a", 1),
        ("a", "1"),
        1,
        np.int64(1),
        "1",
    ]
    assert anchor_state_ids(states, [0] * len(states)).tolist() == [0, 0, 1, 2, 3, 3, 4, 5, 6, 6, 7]
    assert grouped([episode(0, [states[0], states[1], states[2], "end"])])["anchor_ids"].tolist() == [0, 0, 1]


def test_rows_of_groups_may_be_mixed_in_lists_and_arrays():
    texts, groups = ["a", "b", "a", "a", "b"], [4, 4, 9, 4, 9]
    assert anchor_state_ids(texts, groups).tolist() == [0, 1, 2, 0, 3]
    assert anchor_state_ids(texts, np.array(groups)).tolist() == [0, 1, 2, 0, 3]
    assert anchor_state_ids(texts, np.array(["x", "x", "y", "x", "y"])).tolist() == [0, 1, 2, 0, 3]


def test_an_unknown_anchor_is_named():
    with pytest.raises(ValueError, match="anchor is 'prompt'"):
        AnchorStateGrouping(anchor="prompt")


def test_a_missing_group_id_is_named():
    trajectory = SingleAgentEpisode()
    trajectory.add_env_reset("a", {})
    trajectory.add_env_step("b", "act", 0.0, {}, terminated=True)
    with pytest.raises(ValueError, match='has no "group_id"'):
        grouped([trajectory])


def test_the_piece_logs_this_batchs_diagnostics_only():
    metrics = MetricsLogger(root=True)
    piece = AnchorStateGrouping()
    for observations in (["a", "b", "c"], ["a", "a", "c"]):
        piece(rl_module=None, batch={}, episodes=[episode(0, observations)], metrics=metrics)
    logged = metrics.peek("rollout_groups")
    assert logged["anchor_group_size_mean"] == 2.0
    assert logged["anchor_singleton_share"] == 0.0
    assert logged["anchor_rows_share_2_4"] == 1.0


def test_no_episodes_give_no_ids():
    assert grouped([], metrics=MetricsLogger(root=True))["anchor_ids"].tolist() == []


def test_a_batch_whose_later_states_never_repeat_is_warned_of_once(caplog):
    piece = AnchorStateGrouping()
    repeating = [episode(0, ["a", "b", "z"]), episode(0, ["a", "b", "z"])]
    unique = [episode(0, ["a", "b1", "z"]), episode(0, ["a", "b2", "z"])]
    one_step = [episode(0, ["a", "z"]), episode(0, ["a", "z"])]
    with caplog.at_level(logging.WARNING, logger="rllib_gigpo.connectors.anchor_states"):
        for episodes in (repeating, one_step):
            piece(rl_module=None, batch={}, episodes=episodes)
        assert not caplog.records
        for _ in range(2):
            piece(rl_module=None, batch={}, episodes=unique)
    assert len(caplog.records) == 1
    assert "No anchor state but the first" in caplog.text


def test_the_piece_is_rebuilt_from_what_a_checkpoint_stores():
    """RLlib finds the constructor's arguments in its caller's frame, which keyword-only ones must survive."""
    args, kwargs = AnchorStateGrouping(anchor="observation").get_ctor_args_and_kwargs()
    assert AnchorStateGrouping(*args, **pickle.loads(pickle.dumps(kwargs))).anchor == "observation"
