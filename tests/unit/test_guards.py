"""What the guards find, and when."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterable
from typing import Any

import pytest

from rllib_gigpo.algorithms.group_policy.guards import (
    ADVICE,
    ENTROPY_COLLAPSE,
    KL_RUNAWAY,
    LENGTH_BLOWUP,
    NON_FINITE,
    VALID_ACTION_COLLAPSE,
    GuardLimits,
    Guards,
    GuardStop,
    ModuleReadings,
    Readings,
)

pytestmark = pytest.mark.unit


def reading(*, success_rate: float = 0.5, valid_share: float = 0.9, response_tokens: float = 20, **module: Any) -> Any:
    """An iteration in which nothing is wrong, but for what is given."""
    fine = {"entropy": 0.5, "kl": 0.01, **module}
    modules = {"quiet": ModuleReadings(entropy=0.5, kl=0.01), "policy": ModuleReadings(**fine)}
    return Readings(
        success_rate=success_rate, valid_share=valid_share, response_tokens=response_tokens, modules=modules
    )


def found(guards: Guards, readings: Iterable[Readings]) -> list[dict[str, float]]:
    """Per iteration, the guards that find something."""
    return [{name: count for name, count in guards.look_at(one).items() if count} for one in readings]


def test_a_healthy_run_has_no_findings_and_a_counter_for_every_guard() -> None:
    guards = Guards(GuardLimits(stop_on_guards=tuple(ADVICE)))
    assert guards.look_at(reading()) == dict.fromkeys(ADVICE, 0.0)
    assert found(guards, [reading()] * 5) == [{}] * 5
    guards.check()


@pytest.mark.parametrize(
    ("name", "before", "wrong"),
    [
        (ENTROPY_COLLAPSE, {}, {"entropy": 0.001}),
        (LENGTH_BLOWUP, {"response_tokens": 10}, {"response_tokens": 200}),
        (VALID_ACTION_COLLAPSE, {"valid_share": 0.8}, {"valid_share": 0.1}),
        (KL_RUNAWAY, {}, {"kl": 9.0}),
    ],
)
def test_a_guard_warns_once_until_training_has_recovered(
    name: str, before: dict, wrong: dict, caplog: pytest.LogCaptureFixture
) -> None:
    guards = Guards(GuardLimits())
    readings = [reading(**before)] * 3 + [reading(**wrong)] * 5 + [reading(**before)] * 5 + [reading(**wrong)] * 3
    with caplog.at_level(logging.WARNING):
        findings = found(guards, readings)
    assert all(finding.keys() <= {name} for finding in findings)
    counts = [finding.get(name, 0.0) for finding in findings]
    assert counts[:3] == [0, 0, 0] and counts[7] >= 3, "the mean of three iterations is what counts"
    assert counts[12] == 0 and counts[-1] >= 1
    messages = [record.message for record in caplog.records]
    assert len(messages) == 2, "the second one after it had recovered"
    assert all(f"guard {name}: " in message and ADVICE[name] in message for message in messages)


@pytest.mark.parametrize(
    ("readings", "limit", "finds"),
    [
        # Means over three iterations, at the limit and beyond it.
        ([{"entropy": 0.02}, {"entropy": 0.02}, {"entropy": 0.02}], {"min_entropy": 0.02}, False),
        ([{"entropy": 0.02}, {"entropy": 0.02}, {"entropy": 0.01}], {"min_entropy": 0.02}, True),
        ([{"kl": 0.2}, {"kl": 0.2}, {"kl": 0.49}], {"max_kl": 0.3}, False),
        ([{"kl": 0.2}, {"kl": 0.2}, {"kl": 0.51}], {"max_kl": 0.3}, True),
        ([{"kl": math.nan}, {"kl": 9.0}, {"kl": 9.0}], {"max_kl": 0.3}, False),
        ([{"response_tokens": n} for n in (10, 10, 10, 40, 40, 10)], {"max_length_growth": 3.0}, False),
        ([{"response_tokens": n} for n in (10, 10, 10, 40, 41, 10)], {"max_length_growth": 3.0}, True),
        ([{"valid_share": s} for s in (0.4, 0.8, 0.9, 0.2, 0.2, 0.66)], {"min_valid_action_ratio": 0.5}, False),
        ([{"valid_share": s} for s in (0.4, 0.8, 0.9, 0.2, 0.2, 0.64)], {"min_valid_action_ratio": 0.5}, True),
        ([{"valid_share": 0.01}] * 6, {"min_valid_action_ratio": 0.5}, False),
        ([{"entropy": 0.0, "success_rate": 0.97}] * 3, {"min_entropy": 0.02}, False),
        ([{"entropy": 0.0, "success_rate": 0.90}] * 3, {"min_entropy": 0.02}, True),
    ],
)
def test_where_the_limits_are(readings: list[dict], limit: dict, finds: bool) -> None:
    guards = Guards(GuardLimits(**limit))
    findings = found(guards, [reading(**one) for one in readings])
    assert any(findings) == finds


def test_a_guard_that_is_off_finds_nothing() -> None:
    off = GuardLimits(
        max_non_finite_steps=None, min_entropy=None, max_length_growth=None, min_valid_action_ratio=None, max_kl=None
    )
    wrong = reading(entropy=0.0, kl=99.0, valid_share=0.0, response_tokens=1e6, non_finite_in_a_row=1e6)
    assert found(Guards(off), [reading()] * 3 + [wrong] * 5) == [{}] * 8


def test_a_guard_ends_the_run_where_it_is_to() -> None:
    wrong = [reading(kl=5.0, entropy=0.0)] * 3
    guards = Guards(GuardLimits(stop_on_guards=(ENTROPY_COLLAPSE,)))
    found(guards, wrong[:2])
    guards.check()
    found(guards, wrong[2:])
    with pytest.raises(GuardStop, match=r"guard entropy_collapse ends the run: policy .*min_entropy=0.01.*try: "):
        guards.check()
    only_warns = Guards(GuardLimits())
    found(only_warns, wrong)
    only_warns.check()


def test_steps_that_are_not_finite_end_the_run_after_so_many_in_a_row() -> None:
    guards = Guards(GuardLimits(max_non_finite_steps=4))
    assert found(guards, [reading(non_finite_in_a_row=3)]) == [{}]
    guards.check()
    assert found(guards, [reading(non_finite_in_a_row=4)]) == [{NON_FINITE: 1.0}]
    with pytest.raises(GuardStop, match="4 optimizer steps of policy in a row had a loss or gradient that is not"):
        guards.check()


def test_guards_go_on_after_a_restore_as_if_nothing_had_happened() -> None:
    readings = [reading(response_tokens=10, kl=kl) for kl in (0.1, 0.1, 3.0, 3.0)] + [reading(response_tokens=99)] * 3
    whole = Guards(GuardLimits())
    expected = [whole.look_at(one) for one in readings]
    first = Guards(GuardLimits())
    findings = [first.look_at(one) for one in readings[:4]]
    state = json.loads(json.dumps(first.get_state()))
    second = Guards(GuardLimits())
    second.set_state(state)
    assert findings + [second.look_at(one) for one in readings[4:]] == expected
    assert expected[-1][LENGTH_BLOWUP] > 0
