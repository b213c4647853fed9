"""The checks of `rllib doctor env`: a broken environment fails the check that is meant for it, and no other."""

from __future__ import annotations

import pytest

from rllib_gigpo.env_checks import Status, check_contract
from tests.environment_cases import checked, with_status

pytestmark = pytest.mark.unit


def test_an_environment_that_shows_pictures_keeps_the_contract() -> None:
    for results in (
        check_contract("EZPoints", {"observation": "image", "image_size": 64}, episodes=3, new_process=False),
        checked("Picture"),
    ):
        assert with_status(results, Status.FAIL) == {}
        assert with_status(results, Status.PASS)["spaces"].startswith("Dict(text, image)")


def test_an_environment_of_several_agents_is_checked_by_agent() -> None:
    for kind in ("together", "turns", "early"):
        results = check_contract(
            "tests.two_agents.TwoAgentsWithSpaces", {"kind": kind, "steps": 5}, episodes=6, new_process=False
        )
        assert with_status(results, Status.FAIL) == {}
        assert {"rllib check_env", "spaces", "group", "rewards"} <= set(with_status(results, Status.PASS))


def test_the_good_environment_passes_everything() -> None:
    results = checked("Corridor", episodes=30)
    assert with_status(results, Status.FAIL) == {}
    assert set(with_status(results, Status.NOT_APPLICABLE)) == {"anchor state"}
    assert set(with_status(results, Status.INFO)) == {"speed"}


@pytest.mark.parametrize(
    ("name", "check", "seen"),
    [
        ("DefaultCharset", "spaces", "holds ' ,-.', which the charset"),
        ("ArrayObservation", "spaces", "Dict of ['picture']"),
        ("SeedIsIgnored", "gymnasium check_env", "seed"),
        ("CountsEpisodes", "determinism, one object", "Episode"),
        ("CountsObjects", "determinism, two objects", "Room"),
        ("FewDoors", "group", "There is no door"),
        ("NoWon", "infos", "no 'won' in the last info"),
        ("WonIsANumber", "infos", "won=0.0"),
        ("AnchorAtTimes", "anchor state", "infos lack 'anchor_state'"),
        ("AnchorIsAList", "anchor state", "anchor_state is a list"),
        ("RaisesOnNonsense", "invalid actions", "unknown action 'xyzzy 42'"),
        ("FreeInvalidActions", "invalid actions", "empty actions has no end after 100 steps"),
        ("WrongAdmissible", "admissible actions", "'jump' was admissible, then invalid"),
        ("InfiniteReward", "rewards", "reward -inf of type float"),
        ("Endless", "endings", "no end after 100 steps"),
        ("LimitIsTerminated", "truncation", "terminated after 12 steps"),
        ("OnceOnly", "reset after the end", "the game is over"),
        ("RaisesAtATask", "answers", "ConnectionError: no game server"),
        ("OneObjectOnly", "answers", "making another one: OSError: the port is taken"),
        ("GlobalRandom", "global random state", "state of random"),
        ("GlobalNumpy", "global random state", "state of numpy.random"),
        ("LockInInfo", "pickling", "cannot pickle '_thread.lock' object"),
        ("KeepsFiles", "close", "6 open files left by 3 closed environments"),
        ("CloseRaises", "close", "closed already"),
        ("Leaks", "memory", "MiB over 12 of 18 episodes"),
    ],
)
def test_a_broken_environment_fails_the_check_that_is_meant_for_it(name: str, check: str, seen: str) -> None:
    failures = with_status(checked(name), Status.FAIL)
    assert list(failures) == [check], failures
    assert seen in failures[check]


def test_tasks_that_all_look_the_same_are_a_warning() -> None:
    results = checked("OneStart")
    assert with_status(results, Status.FAIL) == {}
    assert with_status(results, Status.WARNING)["tasks differ"] == "all 18 tasks start the same"


def test_an_option_that_the_environment_refuses_is_a_finding_and_an_unknown_name_is_an_error() -> None:
    failures = with_status(check_contract("EZPoints", {"max_steps": 0}), Status.FAIL)
    assert "max_steps is 0" in failures["made"]
    with pytest.raises(ValueError, match=r"unknown environment 'EZPonts'. Did you mean 'EZPoints'"):
        check_contract("EZPonts")
