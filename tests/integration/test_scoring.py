"""What the driver gives learners to score, and how it puts their answers together."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rllib_gigpo.algorithms.group_policy import scoring
from tests.learner_cases import random_rows

pytestmark = pytest.mark.integration


class TwoLearners(SimpleNamespace):
    """In place of a learner group: a fake."""

    is_local = False

    def __len__(self) -> int:
        return 2


def test_every_learner_is_asked_for_every_module_also_without_rows_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = replace(random_rows(3), module_ids=np.array(["b", "a", "b"]))
    asked: list[list[str]] = []

    def call(group: Any, method: str, arguments: list[dict[str, Any]], *, action: str) -> list[Any]:
        batches = [of_learner["batch"].policy_batches for of_learner in arguments]
        asked.extend(list(batch) for batch in batches)
        return [{id_: {scoring.OLD_LOGP: part.rollout_logp} for id_, part in batch.items()} for batch in batches]

    monkeypatch.setattr(scoring, "call_remote_learners", call)
    monkeypatch.setattr(scoring.ray, "put", lambda batch: batch)
    scored = scoring.score_rows(TwoLearners(), rows, [scoring.OLD_LOGP])
    # In one order: sharded models are gone through one after another.
    assert asked == [["a", "b"], ["a", "b"]]
    np.testing.assert_array_equal(scored.old_logp, rows.rollout_logp)
