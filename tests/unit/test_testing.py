"""`rllib_gigpo.testing`, on an environment that keeps the contract and on some that do not."""

from __future__ import annotations

import pytest

from rllib_gigpo.testing import EnvironmentContractError, check_env, step_group_statistics
from tests.broken_environments import CloseRaises, Corridor, OneStart

pytestmark = pytest.mark.unit


def test_a_good_environment_passes_as_class_or_by_path() -> None:
    results = check_env(Corridor, episodes=6, new_process=False)
    by_path = check_env("tests.broken_environments.Corridor", episodes=6, new_process=False)
    assert [result.name for result in by_path] == [result.name for result in results]
    assert "group" in {result.name for result in results}


def test_what_is_broken_is_one_error_with_the_fix() -> None:
    with pytest.raises(EnvironmentContractError, match=r"fail close: close\(\) raised .* Fix: "):
        check_env(CloseRaises, episodes=6, new_process=False)


def test_a_warning_is_an_error_unless_it_is_expected() -> None:
    with pytest.raises(EnvironmentContractError, match="warning tasks differ"):
        check_env(OneStart, episodes=6, new_process=False)
    check_env(OneStart, episodes=6, new_process=False, warnings_allowed={"tasks differ"})


def test_what_no_other_process_can_import_is_refused() -> None:
    class Local(Corridor):
        pass

    with pytest.raises(ValueError, match="cannot be imported by another process"):
        check_env(Local)


def test_states_that_members_share_are_counted() -> None:
    statistics = step_group_statistics(Corridor, tasks=2, group_size=4)
    assert statistics["anchor_group_size_mean"] > 2
    # A group of one meets nobody but itself.
    alone = step_group_statistics(Corridor, tasks=2, group_size=1)
    assert alone["anchor_group_size_mean"] < statistics["anchor_group_size_mean"]
