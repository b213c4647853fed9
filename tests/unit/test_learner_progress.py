"""Which learner is to blame where none gets any further, by what they have reported."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from rllib_gigpo.learners import learner_progress
from rllib_gigpo.learners.learner_progress import LearnerStalled, ProgressWatch

pytestmark = pytest.mark.unit

COMPUTES = {"waits": False, "stands_at": "in a pass\n"}
WAITS = {"waits": True, "stands_at": "in an exchange\n"}


class Reports:
    """In place of Ray's key-value store and of the clock: a fake."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.now = 1000.0
        self.stored: dict[str, bytes] = {}
        monkeypatch.setattr(learner_progress.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(learner_progress, "_internal_kv_get", lambda key, namespace: self.stored.get(key))
        monkeypatch.setattr(learner_progress, "_internal_kv_del", lambda key, namespace: self.stored.pop(key, None))

    def tell(self, watch: ProgressWatch, index: int, number: int, passes: int, **report: Any) -> None:
        """A learner's report."""
        self.stored[watch.keys[index]] = json.dumps({"number": number, "passes": passes, **report}).encode()


def _story(monkeypatch: pytest.MonkeyPatch, *last_reports: dict[str, Any] | None) -> str:
    """The error where learners, after a first report, give the same one again and again, or, for None, no more."""
    reports = Reports(monkeypatch)
    watch = ProgressWatch(len(last_reports), 20.0, "update")
    assert watch.interval_s == 5.0
    with pytest.raises(LearnerStalled) as stalled:
        for number in range(1, 10):
            reports.now += 5
            for index, report in enumerate(last_reports):
                if report is not None or number == 1:
                    reports.tell(watch, index, number, 3, **(report or COMPUTES))
            watch.check(range(len(last_reports)))
    assert reports.now == 1025.0
    watch.close()
    assert not reports.stored
    return str(stalled.value)


def test_the_one_outside_of_an_exchange_is_to_blame(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _story(monkeypatch, WAITS, COMPUTES, WAITS) == (
        "learner 1 has got no further in its update for 20 s (learner_stall_timeout_s), after 3 passes; it stands at:\n"
        "in a pass\nLearners 0, 2 wait for it in an exchange."
    )


def test_one_that_has_stopped_telling_is_to_blame(monkeypatch: pytest.MonkeyPatch) -> None:
    story = _story(monkeypatch, WAITS, None)
    assert story.startswith("learner 1 has")
    assert "it gives no sign of life any more; it stood at:\nin a pass\n" in story
    assert story.endswith("Learners 0 wait for it in an exchange.")


def test_where_all_wait_for_each_other_all_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    story = _story(monkeypatch, WAITS, WAITS)
    assert story.count("has got no further") == 2
    assert story.endswith("the network between them may be gone.")


def test_passes_and_answers_are_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    reports = Reports(monkeypatch)
    watch = ProgressWatch(2, 20.0, "scoring")
    for number in range(1, 20):
        reports.now += 15
        # Only one of them gets on: the other may be waiting for it.
        reports.tell(watch, 0, number, 0, **WAITS)
        reports.tell(watch, 1, number, number, **COMPUTES)
        watch.check([0, 1])
    watch.note_progress()
    reports.now += 19
    watch.check([0])
    reports.now += 1
    with pytest.raises(LearnerStalled, match="learner 0 has got no further in its scoring"):
        watch.check([0])


def test_a_report_that_cannot_be_stored_does_not_end_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    stored, numbers = threading.Event(), []

    def put(key: bytes, value: bytes, namespace: bytes) -> None:
        numbers.append(json.loads(value)["number"])
        if len(numbers) < 3:
            raise ConnectionError("a fake")
        stored.set()

    monkeypatch.setattr(learner_progress, "_internal_kv_put", put)
    with learner_progress.reported("key", 0.001):
        assert stored.wait(30)
    assert numbers[:3] == [1, 2, 3]
