"""The thresholds of the gap between sampler and learner."""

from __future__ import annotations

import logging
import math

import pytest

from rllib_gigpo.algorithms.group_policy.sampler_gap import check_sampler_gap

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(("gap", "warns"), [(0.1, False), (0.2, True)])
def test_a_gap_above_the_first_threshold_is_a_warning(
    gap: float, warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        check_sampler_gap(gap, "policy", warning=0.1, limit=1.0)
    assert [
        record.message.startswith("module 'policy': sampler_learner_gap_mean is 0.2") for record in caplog.records
    ] == ([True] if warns else [])


@pytest.mark.parametrize("gap", [1.5, math.nan])
def test_a_gap_above_the_second_threshold_is_an_error(gap: float) -> None:
    with pytest.raises(RuntimeError, match=r"module 'policy'.* more than sampler_gap_limit=1"):
        check_sampler_gap(gap, "policy", warning=None, limit=1.0)


def test_without_thresholds_nothing_is_judged(caplog: pytest.LogCaptureFixture) -> None:
    check_sampler_gap(math.nan, "policy", warning=None, limit=None)
    assert not caplog.records
