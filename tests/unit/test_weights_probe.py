"""How far an engine's log-probabilities of the probe may be from the learner's."""

from __future__ import annotations

import numpy as np
import pytest

from rllib_gigpo.inference.weights_probe import probe_gap, probe_tolerance

pytestmark = pytest.mark.unit

LIKELY, UNLIKELY = np.full(15, -2.0, np.float32), np.full(15, -15.0, np.float32)


def test_the_tolerance_grows_with_the_log_probs_in_bfloat16_alone() -> None:
    assert probe_tolerance("float32", UNLIKELY) == 1e-3
    assert probe_tolerance("float16", UNLIKELY) == 0.1
    assert probe_tolerance("bfloat16", LIKELY) == 0.1
    assert probe_tolerance("bfloat16", UNLIKELY) == pytest.approx(0.3)


def test_a_gap_is_a_mean_and_not_a_number_where_a_log_prob_is_none() -> None:
    served = LIKELY + np.where(np.arange(15) % 2, -0.5, 0.5).astype(np.float32)
    assert probe_gap(LIKELY, served) == pytest.approx(0.5)
    assert not probe_gap(LIKELY, np.where(np.arange(15) == 3, np.nan, LIKELY)) <= probe_tolerance("bfloat16", LIKELY)
