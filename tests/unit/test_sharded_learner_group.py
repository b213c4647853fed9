"""Within `gathered`, what goes wrong is what is raised."""

from __future__ import annotations

from typing import Any

import pytest

from rllib_gigpo.learners.sharded_learner_group import ShardedLearnerGroup

pytestmark = pytest.mark.unit


def group_whose_learners(*, answer: bool) -> tuple[Any, list[str]]:
    """A group, and what its learners are asked for; stands for their processes, which may be gone."""
    group: Any = object.__new__(ShardedLearnerGroup)
    group._is_shut_down = True
    asked: list[str] = []

    def call_all(method: str, arguments: dict[str, Any]) -> None:
        asked.append(method)
        if method == "release" and not answer:
            raise RuntimeError("learner 0 failed in its call of release")

    group._call_all = call_all
    return group, asked


@pytest.mark.parametrize("answer", [True, False])
def test_what_fails_within_is_not_hidden_by_learners_that_cannot_release(answer: bool) -> None:
    group, asked = group_whose_learners(answer=answer)
    outer, inner = (group.gathered(with_optimizers=value) for value in (True, False))
    with pytest.raises(OSError, match="disk full") as raised, outer, inner:
        raise OSError("disk full")
    assert raised.value.__context__ is None
    assert asked == ["gather", "release"]
    assert not group._is_gathered


def test_learners_that_cannot_release_are_an_error_where_nothing_else_is() -> None:
    group, asked = group_whose_learners(answer=False)
    with pytest.raises(RuntimeError, match="call of release"), group.gathered(with_optimizers=True):
        pass
    assert asked == ["gather", "release"] and not group._is_gathered
