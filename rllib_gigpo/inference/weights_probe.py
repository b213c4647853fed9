"""The probe of a weight delivery: a fixed sequence whose log-probabilities tell two sets of weights apart."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rllib_gigpo.images import StoredImage

PROBE_LENGTH = 16

# Mean absolute difference of log-probs that two implementations of one model may have on the probe. Other weights are
# whole units away; two float32 forward passes differ by rounding, two bfloat16 ones by up to one step of a large logit.
PROBE_TOLERANCE = {"float32": 1e-3, "bfloat16": 0.1, "float16": 0.1}
# In bfloat16 a logit has 8 bits, so rounding grows with it: of a pretrained model, to which the probe's tokens are most
# unlikely (-10 to -21 nats), one and the same forward pass is 0.09 from the float32 one.
_BFLOAT16_SHARE = 0.02


class Probe(NamedTuple):
    """What a model is probed with.

    Attributes:
        token_ids: int32[n].
        images: Of a model that reads images, those of its placeholders.
    """

    token_ids: np.ndarray
    images: tuple[StoredImage, ...] = ()


def probe_token_ids(vocabulary_size: int) -> np.ndarray:
    """int32[16], the same for every model of that vocabulary, spread over it."""
    return (np.arange(PROBE_LENGTH) * vocabulary_size // PROBE_LENGTH).astype(np.int32)


def probe_tolerance(dtype: str, expected: np.ndarray) -> float:
    """The largest `probe_gap` that weights of a dtype ("float32", "bfloat16", "float16") may have.

    Args:
        dtype: A key of `PROBE_TOLERANCE`, which is the least that it may be.
        expected: The learner's log-probabilities on the probe, float32[n].
    """
    share = _BFLOAT16_SHARE if dtype == "bfloat16" else 0.0
    return max(PROBE_TOLERANCE[dtype], share * float(np.abs(expected).mean()))


def probe_gap(expected: np.ndarray, served: np.ndarray) -> float:
    """Mean absolute difference of two probes' log-probabilities, float32[n] each; NaN where either has one."""
    return float(np.abs(expected.astype(np.float64) - served.astype(np.float64)).mean())
