"""The rules of Household, its contract as an environment, and its layouts."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from rllib_gigpo.env_adapters.household.expert import expert_actions
from rllib_gigpo.env_adapters.household.household import Household
from rllib_gigpo.env_adapters.household.layouts import OBJECTS, RECEPTACLES, Layout, layout_of_task
from rllib_gigpo.env_adapters.household.room import Room
from tests.environment_cases import at_random, wins

pytestmark = pytest.mark.unit

# The apple belongs into the fridge and is in the drawer, with the pen; the mug is on the table.
LAYOUT = Layout({"apple": "drawer", "pen": "drawer", "mug": "table"}, "apple", "fridge")
FETCHED = ["go to drawer", "open drawer", "take apple from drawer"]


def room_after(*commands: str, in_a_row: bool = False) -> Room:
    """The room of `LAYOUT` after commands, each of which must have been possible."""
    room = Room(LAYOUT, in_a_row=in_a_row)
    for command in commands:
        assert command in room.commands(), command
        room.do(command)
    return room


def task_where(**wanted: str) -> int:
    """The first task whose object starts at `start` and belongs to `destination`, both names of receptacles."""
    for task in range(10_000):
        layout = layout_of_task(task, num_objects=4)
        start = layout.receptacle_of[layout.object_to_put]
        if (start, layout.destination) == (wanted["start"], wanted["destination"]):
            return task
    raise AssertionError("no such task")


@pytest.mark.parametrize(
    ("commands", "state", "checked"),
    [
        ([], "You are in the middle of the room. You hold nothing.", "nothing"),
        (["go to sofa"], "You are at the sofa. You see nothing. You hold nothing.", "sofa"),
        (["go to drawer"], "You are at the drawer. It is closed. You hold nothing.", "nothing"),
        (["go to drawer", "open drawer"], "You are at the drawer. You see apple pen. You hold nothing.", "drawer"),
        (FETCHED, "You are at the drawer. You see pen. You hold apple.", "drawer"),
        ([*FETCHED, "go to table"], "You are at the table. You see mug. You hold apple.", "drawer table"),
        ([*FETCHED, "put apple in drawer"], "You are at the drawer. You see apple pen. You hold nothing.", "drawer"),
        (
            [*FETCHED, "go to table", "put apple in table"],
            "You are at the table. You see apple mug. You hold nothing.",
            "drawer table",
        ),
        (
            [*FETCHED, "go to sofa", "go to drawer"],
            "You are at the drawer. You see pen. You hold apple.",
            "drawer sofa",
        ),
    ],
)
def test_what_commands_lead_to(commands: list[str], state: str, checked: str) -> None:
    room = room_after(*commands)
    assert room.state_line() == state
    assert room.history_line() == f"You checked {checked}."
    assert not room.is_done


@pytest.mark.parametrize(
    ("commands", "here"),
    [
        ([], []),
        (["go to sofa"], []),
        (["go to table"], ["take mug from table"]),
        (["go to drawer"], ["open drawer"]),
        (["go to drawer", "open drawer"], ["take apple from drawer", "take pen from drawer"]),
        (FETCHED, ["put apple in drawer"]),  # one object at a time
        ([*FETCHED, "go to fridge"], ["open fridge"]),
        ([*FETCHED, "go to fridge", "open fridge"], ["put apple in fridge"]),
    ],
)
def test_what_can_be_done_where(commands: list[str], here: list[str]) -> None:
    room = room_after(*commands)
    assert room.commands() == [f"go to {place}" for place in RECEPTACLES if place != room.place] + here


def test_putting_the_right_object_in_its_destination_is_all_it_takes() -> None:
    fridge_open = [*FETCHED, "go to fridge", "open fridge"]
    assert room_after(*fridge_open, "put apple in fridge").is_done
    swapped = ["go to table", "take mug from table", "go to fridge", "open fridge", "put mug in fridge"]
    assert not room_after(*swapped).is_done


@pytest.mark.parametrize(
    ("commands", "place"),
    [
        # fridge cabinet drawer | table shelf sofa; one begins in the middle.
        (["go to fridge"], "drawer"),
        (["go to drawer"], "drawer"),
        (["go to table"], "table"),
        (["go to sofa"], "table"),
        (["go to fridge"] * 2, "cabinet"),
        (["go to fridge"] * 3, "fridge"),
        (["go to sofa"] * 2, "shelf"),
        (["go to sofa", "go to fridge"], "drawer"),
    ],
)
def test_in_a_row_one_gets_one_place_nearer_only(commands: list[str], place: str) -> None:
    assert room_after(*commands, in_a_row=True).place == place


def test_in_a_row_what_one_passes_is_seen_and_within_reach() -> None:
    room = room_after("go to fridge", "open drawer", in_a_row=True)
    assert room.state_line() == "You are at the drawer. You see apple pen. You hold nothing."
    assert "take apple from drawer" in room.commands() and "go to drawer" not in room.commands()


def test_in_a_row_every_task_can_be_won_in_25_steps_but_not_by_chance() -> None:
    env = Household(in_a_row=True, max_steps=25)

    def nearest(actions: list[str]) -> str:
        here = 2.5 if env.room.place is None else RECEPTACLES.index(env.room.place)
        return min(actions, key=lambda action: abs(RECEPTACLES.index(action.removeprefix("go to ")) - here))

    for task in range(200):
        env.reset(options={"task": task})
        ended = False
        while not ended:
            actions = expert_actions(env.room)
            _, reward, terminated, truncated, _ = env.step(nearest(actions) if len(actions) > 1 else actions[0])
            ended = terminated or truncated
        assert reward == 10
    assert wins(env, range(300), at_random(0)) < 0.05


def test_a_win_is_worth_10_and_terminates() -> None:
    env = Household()
    _, info = env.reset(options={"task": task_where(start="sofa", destination="table")})
    wanted = env.room.layout.object_to_put
    assert info["task_description"] == f"put {wanted} in table"
    for command in ("go to sofa", f"take {wanted} from sofa", "go to table"):
        assert env.step(command)[1:4] == (0.0, False, False)
    _, reward, terminated, truncated, info = env.step(f"put {wanted} in table")
    assert (reward, terminated, truncated, info["won"]) == (10.0, True, False, True)


@pytest.mark.parametrize(
    "action",
    [
        "",
        "open drawer",
        "open table",
        "take apple from drawer",
        "put apple in fridge",
        "go to kitchen",
        "go to  sofa",
        "Go to sofa",
        "go to sofa ",
        "look",
        "\0",
        "ω" * 1000,
    ],
)
def test_what_cannot_be_done_is_a_no_op_that_costs_a_step(action: str) -> None:
    env = Household(max_steps=2)
    first, _ = env.reset(options={"task": 3})
    observation, reward, terminated, truncated, info = env.step(action)
    assert observation == first
    assert (reward, terminated, truncated, info["is_action_valid"]) == (0.0, False, False, False)
    assert env.step(action)[3], "the no-op did not count as a step"


def test_the_step_limit_truncates_but_not_a_win_on_the_last_step() -> None:
    env = Household(max_steps=4)
    task = task_where(start="sofa", destination="table")
    env.reset(options={"task": task})
    wanted = env.room.layout.object_to_put
    fetched = ["go to sofa", f"take {wanted} from sofa", "go to table"]
    for last, ending in (("go to shelf", (0.0, False, True)), (f"put {wanted} in table", (10.0, True, False))):
        env.reset(options={"task": task})
        assert [env.step(action)[1:4] for action in [*fetched, last]][-1] == ending


def test_observations_and_infos() -> None:
    env = Household()
    task = task_where(start="sofa", destination="fridge")
    observation, info = env.reset(options={"task": task})
    assert observation == "You checked nothing.\nYou are in the middle of the room. You hold nothing."
    assert info == {
        "won": False,
        "task_id": f"household/{task}",
        "task_type": "put",
        "task_description": f"put {env.room.layout.object_to_put} in fridge",
        "admissible_actions": [f"go to {place}" for place in RECEPTACLES],
        "anchor_state": "You are in the middle of the room. You hold nothing.",
    }
    observation, _, _, _, info = env.step("go to drawer")
    assert observation == f"You checked nothing.\n{info['anchor_state']}"
    assert info["anchor_state"] == "You are at the drawer. It is closed. You hold nothing."
    assert "open drawer" in info["admissible_actions"] and info["is_action_valid"]


def test_an_anchor_state_forgets_how_one_got_there() -> None:
    env, anchors, observations = Household(), set(), set()
    for path in (["go to table"], ["go to sofa", "go to table"], ["", "go to shelf", "go to table"]):
        env.reset(options={"task": 5})
        answers = [env.step(action) for action in path]
        observations.add(answers[-1][0])
        anchors.add(answers[-1][4]["anchor_state"])
    assert len(anchors) == 1 and len(observations) == 3


@pytest.mark.parametrize("num_objects", [1, 4, 6])
def test_layouts_are_drawn_evenly_and_no_task_is_done_at_the_start(num_objects: int) -> None:
    layouts = [layout_of_task(task, num_objects=num_objects) for task in range(3000)]
    assert {len(layout.receptacle_of) for layout in layouts} == {num_objects}
    assert not any(layout.receptacle_of[layout.object_to_put] == layout.destination for layout in layouts)
    for names, drawn in (
        (OBJECTS, [layout.object_to_put for layout in layouts]),
        (RECEPTACLES, [layout.destination for layout in layouts]),
        (RECEPTACLES, [layout.receptacle_of[layout.object_to_put] for layout in layouts]),
    ):
        counts = Counter(drawn)
        # 5 standard deviations of a share of 1/6 are 0.034 for 3000 tasks.
        assert {name: counts[name] / 3000 for name in names} == pytest.approx(dict.fromkeys(names, 1 / 6), abs=0.034)


def test_the_expert_wins_every_task_within_the_step_limit() -> None:
    env, rng, lengths = Household(), np.random.default_rng(0), []
    for task in range(300):
        env.reset(options={"task": task})
        ended, steps = False, 0
        while not ended:
            actions = expert_actions(env.room)
            _, reward, terminated, truncated, info = env.step(actions[rng.integers(len(actions))])
            assert info["is_action_valid"]
            ended, steps = terminated or truncated, steps + 1
        assert (reward, info["won"]) == (10.0, True)
        lengths.append(steps)
    assert min(lengths) == 4 and max(lengths) <= 12


def test_random_play_hardly_ever_wins() -> None:
    assert wins(Household(), range(300), at_random(0)) < 0.03


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_objects": 0}, "num_objects is 0; it must be an integer from 1 to 6"),
        ({"num_objects": 7}, "num_objects is 7"),
        ({"num_objects": "4"}, "num_objects is '4'"),
        ({"in_a_row": 1}, r"in_a_row is 1; allowed are \[False, True\]"),
    ],
)
def test_wrong_options_are_refused(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Household(**options)
